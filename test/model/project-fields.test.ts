import t from 'tap'
import { readFields } from '../../lib/base/fields.js'
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
  for (const [field, value] of [
    ['name', ''],
    ['name', 'a\nb'],
    ['deployPath', 7],
    ['allowedEnv', ['*']],
    ['scriptShell', '../sh'],
    ['scriptDirectory', '../..'],
    ['scriptTimeoutSeconds', 0],
    ['policy', { evil: 1 }],
    ['postDeployAsync', 'yes']
  ] as const) {
    t.throws(() => readFields({ [field]: value }, projectFields), { message: new RegExp(`"${field}`) })
  }
})
