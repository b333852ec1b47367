// Libraries of Node: node-postgres, postgres.js, the driver of Cube.js, Kysely, Drizzle, TypeORM and Sequelize.

const [host, port, user, password, question, tool] = process.argv.slice(2);
const database = "hushql";
const own = { host, port: Number(port), user, password, database };

const say = (line) => console.log(JSON.stringify(line).replace('{"step":', '{"step": '));
const version = (name) => {
  const path = require.resolve(name, { paths: [process.env.NODE_PATH] });
  const at = path.lastIndexOf(`node_modules/${name}/`) + `node_modules/${name}/`.length;
  say({ step: "version", version: require(`${path.slice(0, at)}package.json`).version });
};

async function step(name, run) {
  try {
    const found = await run();
    say({ step: name });
    return found;
  } catch (error) {
    say({ step: name, error: `${error.name}: ${error.message}`.slice(0, 500) });
  }
}

function expect(condition, message) {
  if (!condition) throw new Error(message);
}

const tools = {
  async pg() {
    version("pg");
    const { Client } = require("pg");
    const client = new Client(own);
    await step("connect", () => client.connect());
    await step("question", async () => expect(Number((await client.query(question)).rows[0].n) === 200, "not 200 people"));
    await step("parameter", () => client.query(`${question} WHERE age > $1`, [30]));
    await step("numbers", async () => {
      const { rows } = await client.query("SELECT oid, relnatts FROM pg_class WHERE relname = 'people'");
      expect(typeof rows[0].oid === "number" && rows[0].relnatts === 7, "numbers are texts");
    });
    await step("arrays", () => client.query("SELECT column_name FROM information_schema.columns WHERE table_schema = $1 AND column_name = ANY($2)", ["public", ["age"]]));
    await client.end();
  },

  async "postgres.js"() {
    version("postgres");
    const sql = require("postgres")(own);
    await step("question", async () => expect(Number((await sql.unsafe(question))[0].n) === 200, "not 200 people"));
    await step("parameter", () => sql`SELECT count(*) AS n FROM people WHERE age > ${30}`);
    await step("catalog", () => sql`SELECT table_name FROM information_schema.tables WHERE table_schema = ANY(${["public"]}) ORDER BY 1`);
    await sql.end();
  },

  async cubejs() {
    version("@cubejs-backend/postgres-driver");
    const found = require("@cubejs-backend/postgres-driver");
    const driver = new (found.PostgresDriver || found)(own);
    const people = { schema_name: "public", table_name: "people" };
    await step("connect", () => driver.testConnection());
    await step("tables", async () => expect((await driver.tablesSchema()).public.people.length === 7, "no table people"));
    await step("schemas", () => driver.getSchemas());
    await step("columns", () => driver.getColumnsForSpecificTables([people]));
    await step("types", () => driver.tableColumnTypes("public.people"));
    await step("question", async () => expect(Number((await driver.query(question, []))[0].n) === 200, "not 200 people"));
    await step("chart", () => driver.query('SELECT count(*) AS "people__count" FROM people AS "people" WHERE "people".age > $1', [30]));
    await step("types of an answer", () => driver.downloadQueryResults(question, [], {}));
    await driver.release();
  },

  async kysely() {
    version("kysely");
    const { Kysely, PostgresDialect, sql } = require("kysely");
    const { Pool } = require("pg");
    const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool(own) }) });
    await step("tables", async () => {
      const tables = await db.introspection.getTables();
      expect(tables.find((table) => table.name === "people").columns.length === 7, "no table people");
    });
    await step("schemas", () => db.introspection.getSchemas());
    await step("question", () => db.selectFrom("people").select((q) => q.fn.countAll().as("n")).execute());
    await step("parameter", () => db.selectFrom("people").select((q) => q.fn.countAll().as("n")).where("age", ">", 30).execute());
    await db.destroy();
  },

  async drizzle() {
    version("drizzle-orm");
    const { drizzle } = require("drizzle-orm/node-postgres");
    const { count, gt } = require("drizzle-orm");
    const { pgTable, bigint } = require("drizzle-orm/pg-core");
    const { Pool } = require("pg");
    const pool = new Pool(own);
    const db = drizzle(pool);
    const people = pgTable("people", { age: bigint("age", { mode: "number" }) });
    await step("question", () => db.select({ n: count() }).from(people));
    await step("parameter", () => db.select({ n: count() }).from(people).where(gt(people.age, 30)));
    await pool.end();
  },

  async typeorm() {
    version("typeorm");
    require("reflect-metadata");
    const { DataSource } = require("typeorm");
    const source = new DataSource({ type: "postgres", host, port: Number(port), username: user, password, database, installExtensions: false });
    await step("connect", () => source.initialize());
    if (!source.isInitialized) return;
    const runner = source.createQueryRunner();
    await step("tables", async () => expect((await runner.getTables(["people"]))[0].columns.length === 7, "no table people"));
    await step("views", () => runner.getViews(["adults"]));
    await step("has", async () => expect((await runner.hasTable("people")) && (await runner.hasColumn("people", "age")), "no table people"));
    await step("schema", () => runner.getCurrentSchema());
    await step("question", () => source.query(question));
    await runner.release();
    await source.destroy();
  },

  async sequelize() {
    version("sequelize");
    const { Sequelize } = require("sequelize");
    const db = new Sequelize(database, user, password, { host, port: Number(port), dialect: "postgres", logging: false });
    const queries = db.getQueryInterface();
    await step("connect", () => db.authenticate());
    await step("tables", async () => expect((await queries.showAllTables()).includes("people"), "no table people"));
    await step("schemas", () => queries.showAllSchemas());
    await step("columns", async () => expect((await queries.describeTable("people")).age.type === "BIGINT", "no column age"));
    await step("indexes", () => queries.showIndex("people"));
    await step("foreign keys", () => queries.getForeignKeyReferencesForTable("people"));
    await step("constraints", () => queries.showConstraint("people"));
    await step("question", () => db.query(question));
    await db.close();
  },
};

tools[tool]().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
