//! tokio-postgres, which describes a statement before it binds values.

use std::time::{Duration, Instant};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls};

use super::{
    COLUMNS, CURSOR, Done, Failed, INSERT, LONG, NAMES, PREVIEW, Place, SPENT, TABLES, TYPES,
    UNKNOWN, Value, equal, expect, is_soon, questions, step, version,
};

fn parameter(value: &Value) -> Box<dyn ToSql + Sync + Send> {
    match value.clone() {
        Value::Whole(value) => Box::new(value),
        Value::Fraction(value) => Box::new(value),
        Value::Text(value) => Box::new(value),
        Value::Truth(value) => Box::new(value),
        Value::Day(value) => Box::new(value),
        Value::Moment(value) => Box::new(value),
        Value::Texts(value) => Box::new(value),
        Value::Nothing => Box::new(None::<i64>),
    }
}

async fn connected(place: &Place, password: &str) -> Result<Client, Error> {
    let mut config = Config::new();
    config.host(&place.host).port(place.port).user(&place.user).password(password).dbname("hushql");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn numbers(db: &Client, sql: &str, values: &[Value]) -> Result<Vec<i64>, Failed> {
    let owned: Vec<_> = values.iter().map(parameter).collect();
    let values: Vec<&(dyn ToSql + Sync)> =
        owned.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
    let rows = db.query(sql, &values).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

fn code(error: &Error) -> &str {
    error.code().map_or("", |code| code.code())
}

pub async fn tried(place: &Place) {
    version("tokio-postgres");
    let mut client = None;
    step("connect", async {
        client = Some(connected(place, &place.password).await?);
        Ok(())
    })
    .await;
    let Some(mut db) = client else { return };
    let question = place.question.as_str();
    step("question", async { equal(numbers(&db, question, &[]).await?, vec![200]) }).await;
    step("simple protocol", async {
        let said = db.simple_query(question).await?;
        let found = said.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        equal(found.as_deref(), Some("200"))
    })
    .await;
    for asked in questions(question) {
        let asking = async { equal(numbers(&db, &asked.sql, &asked.values).await?, asked.found) };
        step(&format!("parameter: {}", asked.name), asking).await;
    }
    step("parameters with types", async {
        let sql = format!("{question} WHERE age > $1 AND city = $2");
        let rows = db.query_typed(&sql, &[(&30_i64, Type::INT8), (&"Rome", Type::TEXT)]).await?;
        expect(rows.len() == 1, "no row")
    })
    .await;
    step("prepared", prepared(&db, question)).await;
    step("pipeline", async {
        let sql = format!("{question} WHERE age > $1");
        let one: [&(dyn ToSql + Sync); 1] = [&30_i64];
        let (first, second) = tokio::join!(db.query_one(&sql, &one), db.query_one(question, &[]));
        equal((first?.try_get::<_, i64>(0)?, second?.try_get::<_, i64>(0)?), (118, 200))
    })
    .await;
    step("tables", async {
        let rows = db.query(TABLES, &[&"public"]).await?;
        let names: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let has = |name: &str| names.iter().any(|own| own == name);
        expect(has("people") && has("adults"), format!("other tables: {names:?}"))
    })
    .await;
    let seven = (1..=7).collect::<Vec<i64>>();
    step("columns", async { equal(numbers(&db, COLUMNS, &[Value::Text("people")]).await?, seven) })
        .await;
    step("types", async {
        let rows = db.query(TYPES, &[]).await?;
        let row = rows.first().ok_or("no row")?;
        let types: Vec<&str> = row.columns().iter().map(|column| column.type_().name()).collect();
        equal(types, vec!["int8", "float8", "text"])?;
        equal(row.try_get::<_, i64>("n")?, 100)?;
        expect((40.0..42.0).contains(&row.try_get::<_, f64>("mean")?), "another mean")
    })
    .await;
    step("arrays", async {
        let row = db.query_one(NAMES, &[&"people"]).await?;
        let names: Vec<String> = row.try_get(0)?;
        equal(names.join(" "), "id age city day seen wage ok".to_owned())
    })
    .await;
    step("transaction", async {
        let begun = db.transaction().await?;
        equal(begun.query_one(question, &[]).await?.try_get::<_, i64>(0)?, 200)?;
        Ok(begun.commit().await?)
    })
    .await;
    step("cursor", async {
        let begun = db.transaction().await?;
        begun.execute(CURSOR, &[&5_i64]).await?;
        for (fetch, wanted) in [("FETCH FIRST FROM c", 0_i64), ("FETCH LAST FROM c", 4)] {
            equal(begun.query_one(fetch, &[]).await?.try_get::<_, i64>(0)?, wanted)?;
        }
        Ok(begun.rollback().await?)
    })
    .await;
    step("portal", async {
        let begun = db.transaction().await?;
        let portal = begun.bind("SELECT k FROM numbers WHERE k < $1 ORDER BY k", &[&5_i64]).await?;
        let sizes = [
            begun.query_portal(&portal, 3).await?.len(),
            begun.query_portal(&portal, 3).await?.len(),
        ];
        equal(sizes, [3, 2])
    })
    .await;
    step("copy", async {
        use futures_util::TryStreamExt as _;
        let copied =
            db.copy_out("COPY (SELECT k FROM numbers WHERE k < 3 ORDER BY k) TO STDOUT").await?;
        let bytes: Vec<_> = copied.try_collect().await?;
        equal(bytes.concat(), b"0\n1\n2\n".to_vec())
    })
    .await;
    step("refusal", async {
        let Err(error) = db.query(UNKNOWN, &[]).await else { return Err("no error".into()) };
        equal(code(&error), "42703")
    })
    .await;
    step("spent budget", async { equal(numbers(&db, SPENT, &[]).await?, vec![3]) }).await;
    step("insert", async {
        db.execute(INSERT, &[&7_i64]).await?;
        Ok(())
    })
    .await;
    step("preview", async {
        db.query(PREVIEW, &[]).await?;
        Ok(())
    })
    .await;
    let token: CancelToken = db.cancel_token();
    step("cancel", async {
        let begun = Instant::now();
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            token.cancel_query(NoTls).await
        };
        let (answer, cancelled) = tokio::join!(db.query(LONG, &[]), cancelling);
        cancelled?;
        let Err(error) = answer else { return Err("no error".into()) };
        equal(code(&error), "57014")?;
        is_soon(begun)
    })
    .await;
    step("after a cancel", async { equal(numbers(&db, question, &[]).await?, vec![200]) }).await;
    step("wrong password", async {
        let Err(error) = connected(place, "wrong").await else { return Err("it is taken".into()) };
        expect(code(&error).starts_with("28"), format!("another error: {error}"))
    })
    .await;
}

async fn prepared(db: &Client, question: &str) -> Done {
    let statement = db.prepare(&format!("{question} WHERE age > $1 AND city LIKE $2")).await?;
    equal(statement.params().to_vec(), vec![Type::INT8, Type::TEXT])?;
    equal(statement.columns().first().map(|column| column.type_().clone()), Some(Type::INT8))?;
    for age in [30_i64, 30, 60] {
        db.query_one(&statement, &[&age, &"%"]).await?;
    }
    Ok(())
}
