# pg and Sequel, which Rails and its like build on.
require 'json'

HOST, PORT, USER, PASSWORD, QUESTION, TOOL = ARGV

def said(step, more = {})
  puts JSON.generate({ step: step }.merge(more)).sub('{"step":', '{"step": ')
  $stdout.flush
end

def step(name)
  found = yield
  said(name)
  found
rescue StandardError => error
  said(name, error: error.message.gsub(/\s+/, ' ')[0, 400])
  nil
end

def expect(condition, message)
  raise message unless condition
end

def pg
  require 'pg'
  said('version', version: PG::VERSION)
  db = step('connect') { PG.connect(host: HOST, port: PORT, user: USER, password: PASSWORD, dbname: 'hushql') } or return
  step('question') { expect(db.exec(QUESTION).getvalue(0, 0) == '200', 'not 200 people') }
  step('parameter') { db.exec_params("#{QUESTION} WHERE age > $1", [30]) }
  step('prepared') do
    db.prepare('asked', "#{QUESTION} WHERE age > $1")
    db.exec_prepared('asked', [30])
    db.describe_prepared('asked')
  end
  step('types') do
    types = PG::BasicTypeMapForResults.new(db)
    expect(db.exec(QUESTION).map_types!(types).getvalue(0, 0) == 200, 'numbers are texts')
  end
  step('stream') do
    db.send_query(QUESTION)
    db.set_single_row_mode
    while (result = db.get_result)
      result.check
    end
  end
  step('cancel') { db.cancel }
  step('preview') { db.exec('SELECT * FROM people LIMIT 10') }
  db.close
end

def sequel
  require 'sequel'
  said('version', version: Sequel::VERSION)
  db = step('connect') { Sequel.connect(adapter: 'postgres', host: HOST, port: PORT, user: USER, password: PASSWORD, database: 'hushql', test: true) } or return
  step('tables') { expect(db.tables.include?(:people), 'no table people') }
  step('views') { expect(db.views.include?(:adults), 'no view adults') }
  step('columns') { expect(db.schema(:people).size == 7, 'other columns') }
  step('indexes') { db.indexes(:people) }
  step('foreign keys') { db.foreign_key_list(:people) }
  step('constraints') { db.check_constraints(:people) }
  step('primary key') { db.primary_key(:people) }
  step('question') { expect(db[QUESTION].first[:n] == 200, 'not 200 people') }
  step('count') { db[:people].where { age > 30 }.count }
  step('groups') { db[:people].group_and_count(:city).all }
  step('preview') { db[:people].limit(10).all }
  db.disconnect
end

TOOL == 'sequel' ? sequel : pg
