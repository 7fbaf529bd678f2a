import t from 'tap'
import { PassThrough } from 'node:stream'
import type { Context } from '../../lib/cli/command.js'
import { rollbackLines, showRollback } from '../../lib/cli/exact-run.js'
import { createOutput, createPaint } from '../../lib/cli/terminal/output.js'
import type { RollbackPlan } from '../../lib/model/plan.js'

const undoHead = 'Exactly to the state before the last deployment'

t.test('a dry run fails if the rollback would be refused', async t => {
  const stdout = new PassThrough({ encoding: 'utf8' })
  const output = createOutput({ stdout, stderr: stdout, env: {} } as never)
  const host = { stderr: { isTTY: false }, on: () => {}, off: () => {} }
  const context = { host, output } as unknown as Context
  const problem = { code: 'not_exact', message: 'Cannot go back exactly' }
  const plan = { mode: 'exact', to: null, over: 0, problem } as RollbackPlan
  t.equal(await showRollback(async () => plan, { json: false, force: false }, context), 1)
  t.match((stdout.read() as string).split('\n'), [undoHead, '✗ Cannot go back exactly', 'Nothing was changed.'])
  t.equal(await showRollback(async () => ({ ...plan, problem: null }), { json: true, force: false }, context), 0)
  t.match(JSON.parse(stdout.read() as string), { mode: 'exact', problem: null })
})

const drifted = { owned: '1', found: '2', mtime: null, size: 1, since: 'dep_1' }
const plan: RollbackPlan = {
  success: true,
  mode: 'exact',
  to: { deployId: 'dep_1', status: 'success', message: 'New prices', treeSha256: null, at: '2026-11-20T16:02:03.000Z' },
  over: 2,
  partial: false,
  baseline: 'owned',
  counts: {
    added: 1,
    changed: 1,
    timeOnly: 1,
    unchanged: 0,
    kept: 5,
    pruned: 3,
    drifted: 1,
    foreign: 0,
    unowned: 0,
    protected: 0,
    conflicts: 0
  },
  paths: {
    added: ['old'],
    changed: ['a'],
    timeOnly: ['b'],
    unchanged: [],
    kept: [],
    pruned: ['x', 'y', 'z'],
    drifted: [{ ...drifted, path: 'config.js', overwritten: false }],
    foreign: [],
    unowned: [],
    protected: [],
    conflicts: [],
    truncated: false
  },
  bytes: { changed: 0, extracted: 0, diskNeeded: 0, diskFree: null },
  checks: [],
  problem: null
}
const options = { paint: createPaint({ isTTY: false }, {}), force: false }

t.test('says what an exact rollback brings back, removes and keeps', async t => {
  t.strictSame(rollbackLines(plan, options), [
    'Exactly to dep_1 (2026-11-20 16:02, "New prices"), over 2 deployments',
    '  brings back 2 files · sets the time of 1 file · removes 3 that later deployments added · keeps 1 edited: config.js (--force takes them back, too)',
    '  + old',
    '  ~ a',
    '  - x',
    '  - y',
    '  - z',
    'Nothing was changed.'
  ])
  t.match(rollbackLines(plan, { ...options, force: true })[1], 'takes back 1 edited: config.js')
  t.match(rollbackLines({ ...plan, to: null, over: 1 }, options)[0], 'before the first deployment, over 1 deployment')
  const problem = { code: 'not_exact', message: 'It is gone' }
  t.equal(rollbackLines({ ...plan, to: null, over: 0, problem }, options)[0], undoHead)
  t.notMatch(rollbackLines({ ...plan, over: 0, problem }, options)[0], 'over')
})

t.test('says what an overlay replaces', async t => {
  const lines = rollbackLines({ ...plan, mode: 'overlay', over: 0 }, options)
  t.match(lines[0], 'The archive of a deployment over the files that are there: to dep_1')
  t.match(lines[1], 'brings back 2 files · sets the time of 1 file · 1 edited on the server: config.js')
})

t.test('names what svc did not put there and a rollback replaces', async t => {
  const lines = rollbackLines(
    { ...plan, counts: { ...plan.counts, foreign: 1 }, paths: { ...plan.paths, foreign: ['site.sqlite'] } },
    options
  )
  t.match(lines[1], / · replaces 1 not of svc$/)
  t.ok(lines.includes('  ! site.sqlite'))
})

t.test('says why it would be refused', async t => {
  const problem = { code: 'not_exact', message: 'Cannot go back exactly' }
  t.strictSame(rollbackLines({ ...plan, problem }, options).slice(1), [
    '  ✗ Cannot go back exactly',
    'Nothing was changed.'
  ])
})

t.test('lists ten paths of each kind', async t => {
  const pruned = Array.from({ length: 12 }, (_, index) => `file${index}`)
  const many = { ...plan, counts: { ...plan.counts, pruned: 40 }, paths: { ...plan.paths, pruned } }
  const lines = rollbackLines(many, options)
  t.equal(lines.filter(line => line.startsWith('  - file')).length, 10)
  t.match(lines.at(-2), '… and 30 more')
})
