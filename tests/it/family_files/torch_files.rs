//! Archives as `torch.save` writes them, with any pickle in them.

use std::io::{Seek, SeekFrom, Write};

/// An archive whose entries are stored as they are.
#[derive(Clone, Default)]
pub(crate) struct Archive {
    /// Names, below the root, and contents.
    pub(crate) entries: Vec<(String, Vec<u8>)>,
    /// Where the second entry begins, to make a large file of little content.
    pub(crate) gap: u64,
}

impl Archive {
    /// An archive with this pickle, in little-endian order.
    pub(crate) fn of(pickle: &[u8]) -> Self {
        Self::default().with("data.pkl", pickle).with("byteorder", b"little")
    }

    /// An archive with tensors of f32, by name, shape and numbers, in one storage.
    pub(crate) fn of_tensors(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Self {
        let count = tensors.iter().map(|(_, _, numbers)| numbers.len() as i64).sum();
        let (mut items, mut storage) = (Vec::new(), Vec::new());
        for (name, shape, numbers) in tensors {
            let shape = shape.iter().map(|&n| n as i64).collect::<Vec<_>>();
            let strides = (1..=shape.len()).map(|from| shape[from..].iter().product()).collect();
            let offset = storage.len() as i64 / 4;
            let own = Described { offset, shape, strides, count, ..Described::filling([1, 1]) };
            items.extend([&text(name)[..], &own.pickle(), b"s"].concat());
            storage.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        let pickle = [b"\x80\x02}", &items[..], b"."].concat();
        Self::default().with("data.pkl", &pickle).with("data/0", &storage)
    }

    pub(crate) fn with(mut self, name: &str, content: &[u8]) -> Self {
        self.entries.push((name.to_owned(), content.to_vec()));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut file = std::io::Cursor::new(Vec::new());
        self.write(&mut file);
        file.into_inner()
    }

    /// Writes the archive. Numbers that fit into 32 bits have 32 bits, and the list of entries is
    /// found by 64 bits, as torch does it.
    pub(crate) fn write(&self, file: &mut (impl Write + Seek)) {
        let mut list = Vec::new();
        for (number, (name, content)) in self.entries.iter().enumerate() {
            if number == 1 && self.gap > 0 {
                file.seek(SeekFrom::Start(self.gap)).unwrap();
            }
            let at = file.stream_position().unwrap();
            let name = format!("model/{name}");
            let length = content.len() as u32;
            let sizes = [0, length, length].map(u32::to_le_bytes).concat();
            // As torch does it, some space makes the content begin at a multiple of 64 bytes.
            let padding = (64 - (at as usize + 34 + name.len()) % 64) % 64;
            let padding =
                [b"FB", &(padding as u16).to_le_bytes()[..], &vec![b'Z'; padding]].concat();
            let name_length = (name.len() as u16).to_le_bytes();
            let header = [
                b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0".as_slice(),
                &sizes,
                &name_length,
                &(padding.len() as u16).to_le_bytes(),
                name.as_bytes(),
                &padding,
                content,
            ];
            file.write_all(&header.concat()).unwrap();
            let narrow = u32::try_from(at).unwrap_or(u32::MAX);
            let wide = if narrow == u32::MAX {
                [&b"\x01\0\x08\0"[..], &at.to_le_bytes()].concat()
            } else {
                Vec::new()
            };
            list.extend(
                [b"PK\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0".as_slice(), &sizes, &name_length].concat(),
            );
            list.extend((wide.len() as u16).to_le_bytes());
            list.extend([0; 10]);
            list.extend(narrow.to_le_bytes());
            list.extend([name.as_bytes(), &wide].concat());
        }
        let start = file.stream_position().unwrap();
        file.write_all(&list).unwrap();
        let (count, size) = (self.entries.len() as u64, list.len() as u64);
        let wide_end = start + size;
        let mut end = [&b"PK\x06\x06"[..], &44u64.to_le_bytes(), &[0; 12]].concat();
        end.extend([count, count, size, start].map(u64::to_le_bytes).concat());
        end.extend(
            [&b"PK\x06\x07\0\0\0\0"[..], &wide_end.to_le_bytes(), &1u32.to_le_bytes()].concat(),
        );
        end.extend(b"PK\x05\x06\0\0\0\0");
        end.extend([(count as u16).to_le_bytes(), (count as u16).to_le_bytes()].concat());
        end.extend(
            [size, start].map(|n| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()).concat(),
        );
        end.extend([0, 0]);
        file.write_all(&end).unwrap();
    }
}

/// The instruction that makes a text.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The instruction that makes a whole number.
pub(crate) fn whole(number: i64) -> Vec<u8> {
    [&b"\x8a\x08"[..], &number.to_le_bytes()].concat()
}

/// The instructions that make a tuple.
pub(crate) fn tuple(values: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &values.concat()[..], b"t"].concat()
}

/// A tensor of f32 as `torch.save` describes it.
#[derive(Clone)]
pub(crate) struct Described {
    pub(crate) storage: &'static str,
    pub(crate) key: &'static str,
    /// Numbers in its storage.
    pub(crate) count: i64,
    pub(crate) offset: i64,
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Vec<i64>,
}

impl Described {
    /// A tensor that fills the storage `0`.
    pub(crate) fn filling(shape: [i64; 2]) -> Self {
        let (shape, strides) = (shape.to_vec(), vec![shape[1], 1]);
        let count = shape.iter().product();
        Self { storage: "FloatStorage", key: "0", count, offset: 0, shape, strides }
    }

    /// The instructions that make it.
    pub(crate) fn pickle(&self) -> Vec<u8> {
        let sizes = |sizes: &[i64]| tuple(&sizes.iter().map(|n| whole(*n)).collect::<Vec<_>>());
        let storage = format!("ctorch\n{}\n", self.storage).into_bytes();
        let storage =
            tuple(&[text("storage"), storage, text(self.key), text("cpu"), whole(self.count)]);
        let hooks = b"ccollections\nOrderedDict\n)R".to_vec();
        let parts = [
            [&storage[..], b"Q"].concat(),
            whole(self.offset),
            sizes(&self.shape),
            sizes(&self.strides),
            b"\x89".to_vec(),
            hooks,
        ];
        [b"ctorch._utils\n_rebuild_tensor_v2\n", &tuple(&parts)[..], b"R"].concat()
    }
}

/// The pickle of a dictionary with one entry, whose value these instructions make.
pub(crate) fn dictionary(name: &str, value: &[u8]) -> Vec<u8> {
    [b"\x80\x02}", &text(name)[..], value, b"s."].concat()
}
