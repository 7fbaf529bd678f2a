import t from 'tap'
import { soakArchives, violations } from '../support/archive-soak.js'
import { firstSeed, repetitions } from '../support/thorough.js'

/* The long run is test/soak/archives.ts. */
const archives = repetitions(14, 40)

t.test('damaged, cut, cancelled and oversized archives do not affect other users', async t => {
  if (process.platform !== 'linux') return t.plan(0, 'what a server has open is listed in /proc, which only Linux has')
  const figures = await soakArchives(t, { archives, seed: firstSeed, directory: t.testdir(), isThorough: false })
  t.same(violations(figures), [])
  t.equal(
    Object.values(figures.outcomes).reduce((sum, count) => sum + count, 0),
    archives,
    JSON.stringify(figures.outcomes)
  )
  t.notOk(figures.outcomes['success'], 'none was deployed')
  t.ok(figures.honestRounds >= 10, `${figures.honestRounds} rounds of honest projects`)
})
