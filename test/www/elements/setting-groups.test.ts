import t from 'tap'
import { describeSettings } from '../../../lib/system/settings.js'
import { groupSettings, settingGroups } from '../../../www/elements/setting-groups.js'
import { words as chinese } from '../../../www/words/zh/settings.js'

t.test('every setting of the server has its place and its name', async t => {
  const placed = settingGroups.flatMap(({ rows }) => rows.map(({ key }) => key))
  t.same([...placed].sort(), describeSettings().map(({ key }) => key).sort())
  t.notOk(groupSettings(describeSettings()).some(({ words }) => words === 'Others'))
})

t.test('one that a newer server has stands among the others, by its key', async t => {
  const setting = { key: 'a_new_one', type: 'text', unit: null, default: '', help: 'What it does.' } as const
  t.match(groupSettings([setting]), [{ words: 'Others', settings: [{ words: 'a_new_one' }] }])
})

t.test('what the server says of a setting is there in Chinese', async t => {
  for (const { help, unit } of describeSettings()) {
    t.ok(help in chinese, help)
    if (unit !== null) t.ok(unit in chinese, unit)
  }
})
