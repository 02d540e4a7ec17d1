//! The OpenAPI document, made from the table of routes and the shapes themselves: what is routed is in it, with its
//! scope, and nothing else is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::access::Scope;
use super::code::Code;
use super::problem::ProblemJson;
use super::query::{Kind, Param};
use super::reply::{Answer, Reply};
use super::route::{Call, Route, scope_word};

/// What is said of a route.
#[derive(Clone, Default)]
pub(crate) struct Docs {
    pub(crate) about: &'static str,
    pub(crate) request: Option<Shape>,
    /// Whether the body may be left away.
    pub(crate) optional: bool,
    pub(crate) answers: Vec<(u16, Option<Shape>)>,
    /// Of an answer that is no JSON.
    pub(crate) kind: &'static str,
    /// What it gives instead where that is asked for.
    pub(crate) also: Option<&'static str>,
    /// Whether its answer is kept nowhere: then it takes no idempotency key.
    pub(crate) once: bool,
}

/// A shape's name, itself, and what it is made of.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    name: fn() -> Cow<'static, str>,
    schema: fn() -> RefOr<Schema>,
    parts: fn(&mut Vec<(String, RefOr<Schema>)>),
}

pub(crate) const fn schema_of<T: ToSchema>() -> Shape {
    Shape { name: T::name, schema: <T as PartialSchema>::schema, parts: T::schemas }
}

/// The document for these routes.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut schemas = BTreeMap::new();
    let problem = reference(schema_of::<ProblemJson>(), &mut schemas);
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes {
        let operation = operation(route, &problem, &mut schemas);
        paths.entry(route.path).or_default().insert(route.method.as_str().to_lowercase(), operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Outlast",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable workflows and jobs: start runs, look at them, act on them. Answers may gain fields, and \
                            enumerations values: accept those that you do not know.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": super::sessions::NAME },
            },
        },
    })
}

fn operation(route: &Route, problem: &Value, schemas: &mut BTreeMap<String, Value>) -> Value {
    let is_public = route.scope == Scope::Public;
    let mut parameters: Vec<Value> = parts_of(route.path).map(path_parameter).collect();
    parameters.extend(route.query.iter().map(query_parameter));
    if route.method == axum::http::Method::POST && !is_public && !route.docs.once {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Sent twice with the same key and body, a request is done once and answered twice alike, for a day",
            "schema": { "type": "string", "minLength": 1, "maxLength": 200 },
        }));
    }
    let mut responses = Map::new();
    for (status, content) in contents(route, schemas) {
        let mut answer = json!({ "description": "Done" });
        if !content.is_empty() {
            answer["content"] = content.into();
        }
        responses.insert(status.to_string(), answer);
    }
    let content = json!({ "application/problem+json": { "schema": problem } });
    responses
        .insert("default".to_owned(), json!({ "description": "Not done: see `code`", "content": content }));

    let tag = route.action.split('.').next().unwrap_or_default();
    let mut operation = json!({
        "operationId": route.action.replace('.', "_"),
        "tags": [tag],
        "summary": route.docs.about,
        "responses": responses,
        "x-scope": scope_word(route.scope),
    });
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(shape) = route.docs.request {
        let content = json!({ "application/json": { "schema": reference(shape, schemas) } });
        operation["requestBody"] = json!({ "required": !route.docs.optional, "content": content });
    }
    // Where no token is asked for, none has to be sent.
    operation["security"] =
        if is_public { json!([]) } else { json!([{ "token": [] }, { "session": [] }, {}]) };
    operation
}

/// What is given with each status, by its type. Of several shapes it is any.
fn contents(route: &Route, schemas: &mut BTreeMap<String, Value>) -> BTreeMap<u16, Map<String, Value>> {
    let mut contents: BTreeMap<u16, Map<String, Value>> = BTreeMap::new();
    for (status, shape) in &route.docs.answers {
        let content = contents.entry(*status).or_default();
        let (kind, schema) = match (shape, route.docs.kind) {
            (Some(shape), _) => ("application/json", reference(*shape, schemas)),
            (None, "") => continue,
            (None, kind @ "application/json") => (kind, json!({ "type": "object" })),
            (None, kind) => (kind, json!({ "type": "string" })),
        };
        let schema = match content.remove(kind).map(|mut other| other["schema"].take()) {
            None => schema,
            Some(other) => match other["anyOf"].clone() {
                Value::Array(mut all) => {
                    all.push(schema);
                    json!({ "anyOf": all })
                }
                _ => json!({ "anyOf": [other, schema] }),
            },
        };
        for kind in [Some(kind), route.docs.also].into_iter().flatten() {
            content.insert(kind.to_owned(), json!({ "schema": schema }));
        }
    }
    contents
}

/// The names in braces.
fn parts_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

fn query_parameter(param: &Param) -> Value {
    let schema = match param.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Number => json!({ "type": "integer" }),
    };
    let name = match param.name.strip_suffix('.') {
        Some(prefix) => format!("{prefix}.{{name}}"),
        None => param.name.to_owned(),
    };
    let mut parameter = json!({ "name": name, "in": "query", "description": param.about, "schema": schema });
    if param.kind == Kind::Texts {
        parameter["explode"] = true.into();
    }
    parameter
}

/// A reference to a shape, which is then among the schemas, with everything that it is made of.
fn reference(shape: Shape, schemas: &mut BTreeMap<String, Value>) -> Value {
    let name = (shape.name)().into_owned();
    if !schemas.contains_key(&name) {
        let value = |schema: &RefOr<Schema>| serde_json::to_value(schema).unwrap_or_default();
        schemas.insert(name.clone(), value(&(shape.schema)()));
        let mut parts = Vec::new();
        (shape.parts)(&mut parts);
        for (part, schema) in parts {
            schemas.entry(part).or_insert_with(|| value(&schema));
        }
        if name == "Problem" {
            let words: Vec<&str> = Code::ALL.iter().map(|code| code.word).collect();
            schemas
                .entry(name.clone())
                .and_modify(|problem| problem["properties"]["code"]["examples"] = words.into());
        }
    }
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Serves it.
pub(crate) async fn serve(call: Call) -> Answer {
    Ok(Reply::text("application/json", call.api.openapi.clone()))
}
