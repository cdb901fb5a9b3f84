//! A machine for pickles. It has the instructions and the names with which `torch.save` writes
//! dictionaries of tensors; all else that a pickle asks for is refused.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use safetensors::Dtype;

/// The most instructions. A tensor takes about 35, and an instruction makes one value at most,
/// so this also limits the stack, the memo, the dictionaries and the number of tensors.
const MOST_STEPS: usize = 1 << 20;
/// The most dimensions of a tensor.
const MOST_DIMENSIONS: usize = 8;
/// The most tuples around a value: the arguments of a tensor contain its shape.
const MOST_DEPTH: u8 = 2;

/// An entry of the archive, as numbers.
#[derive(Debug)]
pub(super) struct Storage<'p> {
    pub(super) key: &'p str,
    pub(super) dtype: Dtype,
    /// How many numbers.
    pub(super) count: u64,
}

/// Numbers of a storage.
#[derive(Debug)]
pub(super) struct Tensor<'p> {
    pub(super) storage: Rc<Storage<'p>>,
    /// How many numbers come before its own.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    /// By dimension, how many numbers from one to the next.
    pub(super) strides: Vec<u64>,
}

/// The tensors of a dictionary by name; what else it holds is left out.
type Dictionary<'p> = BTreeMap<&'p str, Rc<Tensor<'p>>>;

#[derive(Clone)]
enum Value<'p> {
    Whole(i64),
    Text(&'p str),
    /// With the number of tuples around its innermost value.
    Tuple(u8, Rc<[Value<'p>]>),
    Global(Global),
    Storage(Rc<Storage<'p>>),
    Tensor(Rc<Tensor<'p>>),
    Dictionary(Rc<RefCell<Dictionary<'p>>>),
    /// A value that says nothing of tensors: none, a truth value, a fraction.
    Other,
}

/// What a pickle may name.
#[derive(Clone, Copy)]
enum Global {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Storage(Dtype),
}

impl Global {
    fn named(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", storage) => Self::Storage(match storage.strip_suffix("Storage")? {
                "Float" => Dtype::F32,
                "Half" => Dtype::F16,
                "BFloat16" => Dtype::BF16,
                "Double" => Dtype::F64,
                "Long" => Dtype::I64,
                "Int" => Dtype::I32,
                "Short" => Dtype::I16,
                "Char" => Dtype::I8,
                "Byte" => Dtype::U8,
                "Bool" => Dtype::BOOL,
                _ => return None,
            }),
            _ => return None,
        })
    }
}

/// The tensors by name of the dictionary that a pickle makes.
///
/// # Errors
/// What the pickle does wrong, as the rest of a sentence.
pub(super) fn dictionary(pickle: &[u8]) -> Result<Dictionary<'_>, String> {
    let mut machine = Machine { rest: pickle, stack: vec![], marks: vec![], memo: HashMap::new() };
    for _ in 0..MOST_STEPS {
        match machine.step()? {
            None => {}
            Some(Value::Dictionary(made)) => return Ok(made.take()),
            Some(_) => return Err("makes no dictionary of tensors".to_owned()),
        }
    }
    Err(format!("has more than {MOST_STEPS} instructions, the maximum"))
}

struct Machine<'p> {
    rest: &'p [u8],
    stack: Vec<Value<'p>>,
    /// Heights of the stack, below which no value is taken.
    marks: Vec<usize>,
    memo: HashMap<u64, Value<'p>>,
}

impl<'p> Machine<'p> {
    /// Executes an instruction; the last one returns the result.
    fn step(&mut self) -> Result<Option<Value<'p>>, String> {
        let made = match self.number(1)? as u8 {
            // The version.
            b'\x80' => self.bytes(1).map(|_| None)?,
            b'.' => return self.last(1).map(|mut values| values.pop()),
            b'(' => {
                self.marks.push(self.stack.len());
                None
            }
            b')' => Some(tuple(Vec::new())?),
            count @ b'\x85'..=b'\x87' => Some(tuple(self.last(usize::from(count - b'\x84'))?)?),
            b't' => Some(tuple(self.since_mark()?)?),
            b'}' => Some(Value::Dictionary(Rc::default())),
            b'N' | b'\x88' | b'\x89' => Some(Value::Other),
            b'G' => self.bytes(8).map(|_| Some(Value::Other))?,
            b'K' => Some(Value::Whole(self.number(1)? as i64)),
            b'M' => Some(Value::Whole(self.number(2)? as i64)),
            b'J' => Some(Value::Whole(self.number(4)? as i32 as i64)),
            b'\x8a' => Some(Value::Whole(self.long()?)),
            b'X' => {
                let length = self.number(4)? as usize;
                Some(Value::Text(text(self.bytes(length)?)?))
            }
            b'q' => self.memorise(1)?,
            b'r' => self.memorise(4)?,
            b'h' => Some(self.remembered(1)?),
            b'j' => Some(self.remembered(4)?),
            b'c' => Some(Value::Global(self.global()?)),
            b'Q' => Some(storage(&self.last(1)?).ok_or(OTHERWISE)?),
            b'R' => Some(call(&self.last(2)?).ok_or(OTHERWISE)?),
            // The attributes of a dictionary are not in it.
            b'b' => self.last(1).map(|_| None)?,
            b's' => self.last(2).and_then(|items| self.set(items))?,
            b'u' => self.since_mark().and_then(|items| self.set(items))?,
            other => {
                let what = "which no dictionary of tensors needs";
                return Err(format!("has the instruction 0x{other:02x}, {what}"));
            }
        };
        self.stack.extend(made);
        Ok(None)
    }

    fn bytes(&mut self, count: usize) -> Result<&'p [u8], String> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or("ends too early")?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The number in the next bytes, of which there are eight at most.
    fn number(&mut self, bytes: usize) -> Result<u64, String> {
        let bytes = self.bytes(bytes)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// A number with a sign, whose number of bytes comes first.
    fn long(&mut self) -> Result<i64, String> {
        let length = self.number(1)? as usize;
        if length > 8 {
            return Err("has a number of more than 64 bits".to_owned());
        }
        let bytes = self.bytes(length)?;
        let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { -1 } else { 0 };
        Ok(bytes.iter().rev().fold(sign, |number, &byte| number << 8 | i64::from(byte)))
    }

    /// The last values of the stack, removed from it.
    fn last(&mut self, count: usize) -> Result<Vec<Value<'p>>, String> {
        let floor = self.marks.last().copied().unwrap_or_default();
        let start = self.stack.len().checked_sub(count).filter(|start| *start >= floor);
        Ok(self.stack.split_off(start.ok_or(UNMADE)?))
    }

    /// The values since the last mark, removed from the stack like it.
    fn since_mark(&mut self) -> Result<Vec<Value<'p>>, String> {
        Ok(self.stack.split_off(self.marks.pop().ok_or(UNMADE)?))
    }

    /// Gives the last value a number.
    fn memorise(&mut self, bytes: usize) -> Result<Option<Value<'p>>, String> {
        let number = self.number(bytes)?;
        self.memo.insert(number, self.stack.last().ok_or(UNMADE)?.clone());
        Ok(None)
    }

    fn remembered(&mut self, bytes: usize) -> Result<Value<'p>, String> {
        let number = self.number(bytes)?;
        Ok(self.memo.get(&number).ok_or(UNMADE)?.clone())
    }

    fn global(&mut self) -> Result<Global, String> {
        let [module, name] = [self.line()?, self.line()?];
        Global::named(module, name).ok_or_else(|| {
            let name = format!("{module}.{name}").chars().take(100).collect::<String>();
            let what = "nothing but tensors is read from pickles, and nothing is run";
            format!("refers to {}; {what}", name.escape_debug())
        })
    }

    fn line(&mut self) -> Result<&'p str, String> {
        let length = self.rest.iter().position(|&byte| byte == b'\n').ok_or("ends too early")?;
        text(&self.bytes(length + 1)?[..length])
    }

    /// Puts names and what they stand for into the dictionary that is the last value.
    fn set(&self, items: Vec<Value<'p>>) -> Result<Option<Value<'p>>, String> {
        let Some(Value::Dictionary(dictionary)) = self.stack.last() else {
            return Err("puts something into what is no dictionary".to_owned());
        };
        for item in items.chunks(2) {
            if let [Value::Text(name), Value::Tensor(tensor)] = item {
                dictionary.borrow_mut().insert(name, tensor.clone());
            }
        }
        Ok(None)
    }
}

const UNMADE: &str = "uses a value that it has not made";
const OTHERWISE: &str = "makes a tensor otherwise than torch.save does";

fn text(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(|_| "has a text that is not UTF-8".to_owned())
}

fn tuple(values: Vec<Value<'_>>) -> Result<Value<'_>, String> {
    let depths = values.iter().map(|value| match value {
        Value::Tuple(depth, _) => *depth,
        _ => 0,
    });
    match 1 + depths.max().unwrap_or_default() {
        depth if depth <= MOST_DEPTH => Ok(Value::Tuple(depth, values.into())),
        _ => Err("has tuples within tuples within tuples".to_owned()),
    }
}

/// The storage that a tuple identifies.
fn storage<'p>(id: &[Value<'p>]) -> Option<Value<'p>> {
    let [Value::Tuple(_, parts)] = id else { return None };
    let [Value::Text("storage"), Value::Global(Global::Storage(dtype)), key, _, count] = &**parts
    else {
        return None;
    };
    let (Value::Text(key), Value::Whole(count)) = (key, count) else { return None };
    let count = u64::try_from(*count).ok()?;
    Some(Value::Storage(Rc::new(Storage { key, dtype: *dtype, count })))
}

/// What a call makes of a global and its arguments.
fn call<'p>(parts: &[Value<'p>]) -> Option<Value<'p>> {
    let [Value::Global(global), Value::Tuple(_, parts)] = parts else { return None };
    match (global, &**parts) {
        (Global::OrderedDict, []) => Some(Value::Dictionary(Rc::default())),
        (Global::RebuildParameter, [tensor @ Value::Tensor(_), _, _]) => Some(tensor.clone()),
        (Global::RebuildTensor, [storage, offset, shape, strides, _, _]) => {
            let (Value::Storage(storage), Value::Whole(offset)) = (storage, offset) else {
                return None;
            };
            let (storage, offset) = (storage.clone(), u64::try_from(*offset).ok()?);
            let (shape, strides) = (sizes(shape)?, sizes(strides)?);
            let alike = shape.len() == strides.len();
            alike.then(|| Value::Tensor(Rc::new(Tensor { storage, offset, shape, strides })))
        }
        _ => None,
    }
}

/// The numbers of a tuple, one for each dimension.
fn sizes(value: &Value<'_>) -> Option<Vec<u64>> {
    let Value::Tuple(_, sizes) = value else { return None };
    let size = |value: &Value<'_>| match value {
        Value::Whole(size) => u64::try_from(*size).ok(),
        _ => None,
    };
    (sizes.len() <= MOST_DIMENSIONS).then(|| sizes.iter().map(size).collect())?
}
