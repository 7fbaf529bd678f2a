import t from 'tap'
import { exitCodeOf, planExitCodes, planLines } from '../../lib/cli/plan-view.js'
import { createPaint } from '../../lib/cli/terminal/output.js'
import { widthOf } from '../../lib/cli/terminal/columns.js'
import { aPlan } from '../support/a-plan.js'

const nowMs = Date.UTC(2026, 0, 2, 5, 0, 0)
const paint = createPaint({}, {})
const drifted = (path: string, overwritten: boolean, found: string | null = 'cd') => ({
  path,
  owned: 'ab',
  found,
  mtime: found === null ? null : '2026-01-01T23:10:00.000Z',
  size: found === null ? null : 5,
  since: 'dep_1',
  overwritten
})
const { counts, paths } = aPlan()
const full = aPlan({
  live: { deployId: 'dep_1', status: 'success', message: 'New prices', treeSha256: null, at: '2026-01-02T03:00:00Z' },
  counts: {
    ...counts,
    added: 12,
    changed: 1,
    timeOnly: 5009,
    unchanged: 2,
    kept: 3,
    drifted: 3,
    foreign: 1,
    conflicts: 1
  },
  paths: {
    ...paths,
    added: Array.from({ length: 12 }, (_, i) => `assets/${i}-${'long-'.repeat(20)}.js`),
    changed: ['server/index.js'],
    kept: ['old.js'],
    drifted: [drifted('config.js', true), drifted('kept.js', false), drifted('gone.js', true, null)],
    foreign: ['site.sqlite'],
    conflicts: [{ path: 'a', code: 'directory_in_the_way', message: 'Nothing was changed: "a" is a directory' }]
  },
  bytes: { changed: 5, extracted: 9, diskNeeded: 7_647_000, diskFree: 79e9 },
  checks: [
    { name: 'inodes', ok: true },
    { name: 'entries_owned_by_others', ok: false, code: 'x', message: `2 files ${'of '.repeat(40)}`, paths: ['b'] },
    { name: 'clock', ok: true, message: 'The clocks differ' }
  ],
  scripts: [
    { step: 'preDeploy', source: 'platform', async: false, sha256: 'ab', clientIgnored: true },
    { step: 'postDeploy', source: 'client', async: true, sha256: 'ab', clientIgnored: false },
    { step: 'onFailure', source: 'platform', async: false, sha256: 'ab', clientIgnored: false }
  ],
  queue: { running: 'dep_2', waiting: 2, ahead: null }
})

t.test('shows what is removed that svc did not put there, and what protects the rest', async t => {
  const paths12 = Array.from({ length: 12 }, (_, i) => `old/${i}`)
  const plan = aPlan({
    prune: 'foreign',
    counts: { ...counts, pruned: 12, unowned: 12, protected: 2 },
    paths: {
      ...paths,
      pruned: paths12,
      unowned: paths12.map(path => ({ path, size: 2048 })),
      protected: [{ path: 'uploads/a', size: 3, glob: 'uploads/**' }]
    }
  })
  const lines = planLines(plan, { paint, nowMs, all: false })
  t.match(lines[1], / - 12 removed {3}. 2 protected$/)
  t.equal(lines.filter(line => line.endsWith('  not of svc, 2.0 KB')).length, 12, 'more than of other plans')
  t.ok(lines.includes('  . uploads/a  3 B, protected by "uploads/**"'))
  t.ok(lines.includes('  … and 1 more that the policy protects'))
  t.equal(exitCodeOf(plan, true), planExitCodes.changes)
})

t.test('shows a plan in lines of at most 80 columns', async t => {
  const lines = planLines(full, { paint, nowMs, all: false })
  for (const line of lines) t.ok(widthOf(line) <= 80, line)
  t.strictSame(lines.slice(0, 3), [
    'Plan for Shop (production), against dep_1, 2h ago, "New prices"',
    '  + 12 added   ~ 1 changed   = 5,011 as they are   ! 3 edited on the server',
    '  ! 1 not of svc   . 3 kept'
  ])
  t.equal(lines.filter(line => line.startsWith('  + assets/')).length, 10)
  for (const line of [
    '  … and 3 more: svc plan --all',
    '  ! config.js  edited on the server 2026-01-01 23:10, would be overwritten',
    '  ! kept.js  edited on the server 2026-01-01 23:10, stays',
    '  ! gone.js  removed on the server, would be restored',
    '  ! site.sqlite  not of svc, would be replaced',
    "  scripts   pre-deploy: the project's own; yours would be ignored",
    '  scripts   post-deploy: yours, in the background',
    "  scripts   on-failure: the project's own, only if the deployment fails",
    '  space     7.3 MB needed, 74 GB free',
    '  queue     dep_2 is running, 2 deployments queued',
    '  ✗ "a" is a directory',
    '  ! The clocks differ',
    'Nothing was changed.'
  ]) {
    t.ok(lines.includes(line), line)
  }
})

t.test('--all shows every path, whatever its length', async t => {
  const lines = planLines(full, { paint, nowMs, all: true })
  for (const path of [...full.paths.added, ...full.paths.changed, ...full.paths.kept]) {
    t.ok(
      lines.some(line => line.endsWith(` ${path}`)),
      path
    )
  }
})

t.test('control characters of the server do not reach the terminal', async t => {
  const path = 'a\u001b[31m\nb'
  const plan = aPlan({ counts: { ...counts, added: 1 }, paths: { ...paths, added: [path] } })
  const lines = planLines(plan, { paint, nowMs, all: true })
  t.notOk(lines.some(line => line.includes('\n') || line.includes('\u001b')))
})

t.test('the exit code', async t => {
  const cases: Array<[Parameters<typeof aPlan>[0], plain: number, detailed: number]> = [
    [{}, 0, 0],
    [{ counts: { ...counts, unchanged: 5, kept: 1 } }, 0, 0],
    [{ counts: { ...counts, timeOnly: 1 } }, 0, 3],
    [{ counts: { ...counts, changed: 1, drifted: 1 } }, 0, 4],
    [{ counts: { ...counts, conflicts: 1, drifted: 1 } }, 1, 1],
    [{ checks: [{ name: 'inodes', ok: false }] }, 1, 1],
    [{ partial: true }, 0, 1]
  ]
  for (const [patch, plain, detailed] of cases) {
    const plan = aPlan(patch)
    t.strictSame([exitCodeOf(plan, false), exitCodeOf(plan, true)], [plain, detailed], JSON.stringify(patch))
  }
})
