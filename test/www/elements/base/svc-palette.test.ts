import '../../../support/without-dom.js'
import t from 'tap'
import { setHolder } from '../../../../www/state/session.js'
import { commandsIn, foundWords, matchRank } from '../../../../www/elements/base/svc-palette.js'

const now = Date.parse('2026-11-22T12:00:00.000Z')
const locale = { language: 'en-GB', timeZone: 'UTC' }

const rows: Array<[subtitle: string, words: string]> = [
  ['shop · success · 2026-03-12T14:03:22.123Z', 'shop · Success · 12 Mar 14:03'],
  ['a · b · failed · 2026-11-22T11:58:00.000Z', 'a · b · Failed · 2 min ago'],
  ['admin · dep_1 · 2026-11-21T09:00:00.000Z', 'admin · dep_1 · yesterday 09:00'],
  ['production · /srv/shop', 'production · /srv/shop'],
  ['admin · until 2026-11-22T12:30:00.000Z: Release night', 'admin · until today 12:30: Release night'],
  ['success · failed', 'success · failed'],
  ['a · 2026-99-99T00:00:00Z', 'a · 2026-99-99T00:00:00Z'],
  ['', '']
]

for (const [subtitle, words] of rows)
  t.test(`“${subtitle}”`, async t => void t.equal(foundWords(subtitle, now, locale), words))

t.test('matches a title by its beginning, a word, a part, or its letters in order', async t => {
  for (const [typed, title, rank] of [
    ['', 'Overview', 0],
    ['over', 'Overview', 4],
    ['import', 'Export and import', 3],
    ['view', 'Overview', 2],
    ['ovw', 'Overview', 1],
    ['xyz', 'Overview', null],
    ['概', '概览', 4]
  ] as const) {
    t.equal(matchRank(typed, title), rank, `“${typed}” in ${title}`)
  }
})

t.test('a text begins commands that the signed-in token may use', async t => {
  const names = (text: string) => commandsIn(text).map(({ command, name }) => [command.verbs[0], name])
  setHolder({ role: 'admin', name: 'admin', token: null, projects: null })
  for (const [text, verb, name] of [
    ['roll back storefront', 'roll back', 'storefront'],
    ['Rollback Shop EU', 'roll back', 'Shop EU'],
    ['deploy to shop', 'deploy', 'shop'],
    ['deploy shop', 'deploy', 'shop'],
    ['open logs of shop', 'open logs of', 'shop'],
    ['logs of shop', 'open logs of', 'shop'],
    ['回滚shop', 'roll back', 'shop'],
    ['部署 商店', 'deploy', '商店'],
    ['lock', 'lock', ''],
    ['rol', 'roll back', '']
  ] as const) {
    t.same(names(text), [[verb, name]], text)
  }
  for (const text of ['', 'l', 'lockers', 'deployments', 'shop', 'relock shop']) t.same(names(text), [], text)
  setHolder({ role: 'viewer', name: 'token:seer', token: null, projects: null })
  t.same(names('roll back shop'), [], 'a viewer may not')
  t.same(names('logs of shop'), [['open logs of', 'shop']])
  setHolder({ role: 'deployer', name: 'token:ci', token: null, projects: null })
  t.same(names('lock shop'), [])
  t.same(names('deploy shop'), [['deploy', 'shop']])
  setHolder(null)
})
