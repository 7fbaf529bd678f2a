import t from 'tap'
import { readFields } from '../../lib/base/fields.js'
import { matching } from '../support/sentences/matching.js'
import { exampleFields, exampleValues, wrongRecords } from '../support/project-examples.js'
import { newProjectFields, projectFields } from '../../lib/model/project-fields.js'

t.test('a change needs no field, a new project its name and its path', async t => {
  t.same(
    Object.values(readFields({}, projectFields)).filter(value => value !== undefined),
    []
  )
  t.throws(() => readFields({ name: 'a' }, newProjectFields), { message: /"deployPath"/ })
  t.match(readFields({ name: ' a ', deployPath: '/srv/a' }, newProjectFields), { name: 'a', deployPath: '/srv/a' })
})

t.test('refuses values that cannot be meant, naming the field', async t => {
  const records = [
    ...wrongRecords(exampleFields),
    ['name', { name: '' }],
    ['scriptTimeoutSeconds', { scriptTimeoutSeconds: 0 }]
  ] as const
  t.ok(records.length > 20)
  for (const [field, record] of records)
    t.throws(() => readFields(record, projectFields), { message: matching(`"${field}"`) }, field)
})

t.test('takes a value of each field', async t => {
  const values = exampleValues(exampleFields)
  t.match(readFields(values, projectFields), values)
})
