//! Whether a value holds a float that JSON has no number for: NaN or an infinity.
//!
//! serde_json writes those as `null` without a word, and whoever reads the number back finds none. This
//! goes through a value as a serializer does, and writes nothing.

use std::fmt::Display;

use serde::ser::{self, Error as _, Serialize, Serializer};
use serde_json::Error;

/// A serializer that refuses such floats and accepts everything else.
pub(crate) struct Finite;

type Checked = Result<(), Error>;

fn check(finite: bool) -> Checked {
    match finite {
        true => Ok(()),
        false => Err(Error::custom("JSON has no number for NaN and the infinities")),
    }
}

macro_rules! accept {
    ($($name:ident($($type:ty),*);)*) => {$(
        fn $name(self, $(_: $type),*) -> Checked {
            Ok(())
        }
    )*};
}

macro_rules! open {
    ($($name:ident($($type:ty),*) -> $part:ident;)*) => {$(
        type $part = Finite;

        fn $name(self, $(_: $type),*) -> Result<Finite, Error> {
            Ok(Finite)
        }
    )*};
}

impl Serializer for Finite {
    type Ok = ();
    type Error = Error;

    fn serialize_f32(self, value: f32) -> Checked {
        check(value.is_finite())
    }

    fn serialize_f64(self, value: f64) -> Checked {
        check(value.is_finite())
    }

    accept! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Checked {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    open! {
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_struct(&'static str, usize) -> SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }
}

macro_rules! parts {
    ($($part:ident: $($name:ident($($key:ty)?)),+;)*) => {$(
        impl ser::$part for Finite {
            type Ok = ();
            type Error = Error;

            $(fn $name<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Checked {
                value.serialize(Finite)
            })+

            fn end(self) -> Checked {
                Ok(())
            }
        }
    )*};
}

parts! {
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeMap: serialize_key(), serialize_value();
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
}
