import t from 'tap'
import { describeSettings } from '../../../../lib/projects/settings.js'
import { groupSettings, settingGroups } from '../../../../www/elements/settings/setting-groups.js'
import { words as chinese } from '../../../../www/words/zh/settings.js'

t.test('has a group and a label for every setting of the server', async t => {
  const placed = settingGroups.flatMap(({ rows }) => rows.map(({ key }) => key))
  t.same(
    [...placed].sort(),
    describeSettings()
      .map(({ key }) => key)
      .sort()
  )
  t.notOk(groupSettings(describeSettings()).some(({ words }) => words === 'Others'))
})

t.test('shows an unknown setting of a newer server by its key', async t => {
  const setting = { key: 'a_new_one', type: 'text', unit: null, default: '', help: 'What it does.' } as const
  t.match(groupSettings([setting]), [{ words: 'Others', settings: [{ words: 'a_new_one' }] }])
})

t.test('has every description of a setting in Chinese', async t => {
  for (const { help, unit } of describeSettings()) {
    t.ok(help in chinese, help)
    if (unit !== null) t.ok(unit in chinese, unit)
  }
})
