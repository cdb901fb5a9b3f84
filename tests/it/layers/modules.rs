//! The modules of a source tree and what they use, with `pub use` followed to the module that
//! defines a name.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree};

/// The path of a module from the root, which is empty.
pub(super) type ModulePath = Vec<String>;

/// All modules of a crate, each in a file of its own.
#[derive(Default)]
pub(super) struct Modules(BTreeMap<ModulePath, Module>);

#[derive(Default)]
struct Module {
    /// Names that it imports or re-exports, with their paths.
    imports: BTreeMap<String, Vec<String>>,
    /// The paths of `use …::*`.
    globs: Vec<Vec<String>>,
    /// The names of its own items.
    items: BTreeSet<String>,
    /// All paths in its code.
    paths: BTreeSet<Vec<String>>,
}

impl Modules {
    /// Adds the module of a file; unit tests may use anything.
    pub(super) fn add(&mut self, path: ModulePath, text: &str) {
        let file = syn::parse_file(text).unwrap_or_else(|why| panic!("{path:?}: {why}"));
        let module = self.0.entry(path).or_default();
        module.visit_file(&file);
        for item in &file.items {
            module.items.extend(name_of(item));
        }
    }

    /// By module, the other modules that define what it uses.
    pub(super) fn uses(&self) -> BTreeMap<&ModulePath, BTreeSet<ModulePath>> {
        let mut uses = BTreeMap::<_, BTreeSet<_>>::new();
        for (own, module) in &self.0 {
            let found = module.paths.iter().filter_map(|path| self.resolve(own, path, 0));
            uses.insert(own, found.filter(|other| other != own).collect());
        }
        uses
    }

    /// The parts of folders that depend on each other in a circle, with the parts next to them that
    /// they use.
    pub(super) fn circles(&self) -> Vec<String> {
        let mut parts = BTreeMap::<ModulePath, BTreeMap<String, BTreeSet<String>>>::new();
        for (own, others) in self.uses() {
            for other in others {
                let common = own.iter().zip(&other).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (own.get(common), other.get(common)) {
                    let folder = parts.entry(own[..common].to_vec()).or_default();
                    folder.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        let mut circles = Vec::new();
        for (folder, uses) in parts {
            for (part, others) in &uses {
                if super::in_cycle(&uses, part) {
                    circles.push(format!("{}::{part} uses {others:?}", folder.join("::")));
                }
            }
        }
        circles
    }

    /// The module that defines the item at the end of a path; none outside of the crate.
    fn resolve(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => from.split_last()?.1.to_vec(),
            _ => return self.named(from, first, rest, depth),
        };
        let mut rest = rest;
        while let Some(("super", others)) = rest.split_first().map(|(a, b)| (a.as_str(), b)) {
            at.pop();
            rest = others;
        }
        match rest.split_first() {
            Some((name, rest)) => self.named(&at, name, rest, depth).or(Some(at)),
            None => Some(at),
        }
    }

    /// The same for a name in a module and the rest of a path after it.
    fn named(
        &self,
        at: &ModulePath,
        name: &String,
        rest: &[String],
        depth: usize,
    ) -> Option<ModulePath> {
        let child = [at.as_slice(), std::slice::from_ref(name)].concat();
        if self.0.contains_key(&child) {
            return match rest.split_first() {
                Some((name, rest)) => self.named(&child, name, rest, depth).or(Some(child)),
                None => Some(child),
            };
        }
        let module = self.0.get(at).filter(|_| depth < 20)?;
        if module.items.contains(name) {
            return Some(at.clone());
        }
        if let Some(path) = module.imports.get(name) {
            return self.resolve(at, &[path, rest].concat(), depth + 1);
        }
        let defines = |glob: &Vec<String>| {
            let inside = self.resolve(at, glob, depth + 1)?;
            self.named(&inside, name, rest, depth + 1)
        };
        module.globs.iter().find_map(defines)
    }
}

impl Module {
    fn import(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => {
                self.name(before.last().cloned().unwrap_or_default(), before.to_vec());
            }
            UseTree::Name(name) => self.name(name.ident.to_string(), with(&name.ident)),
            UseTree::Rename(name) => self.name(name.rename.to_string(), with(&name.ident)),
            UseTree::Glob(_) => {
                self.paths.insert(before.to_vec());
                self.globs.push(before.to_vec());
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(before, tree);
                }
            }
        }
    }

    fn name(&mut self, name: String, path: Vec<String>) {
        self.paths.insert(path.clone());
        self.imports.insert(name, path);
    }
}

impl<'f> Visit<'f> for Module {
    fn visit_item_mod(&mut self, item: &'f ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'f ItemUse) {
        self.import(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'f syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.paths.insert(names.collect());
        visit::visit_path(self, path);
    }

    /// Most macros take expressions.
    fn visit_macro(&mut self, call: &'f Macro) {
        type Arguments = syn::punctuated::Punctuated<syn::Expr, syn::Token![,]>;
        if let Ok(arguments) = call.parse_body_with(Arguments::parse_terminated) {
            let mut inside = Module::default();
            for expression in &arguments {
                inside.visit_expr(expression);
            }
            self.paths.extend(inside.paths);
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    let tested = |one: &Attribute| {
        one.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    };
    attributes.iter().any(|one| one.path().is_ident("cfg") && tested(one))
}

/// The name of an item, if others can use it.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
