import t from 'tap'
import { commands as apply } from '../../lib/cli/commands/apply.js'
import { commands as plan } from '../../lib/cli/commands/plan.js'
import { commands as promote, commands as rollback, commands as undo } from '../../lib/cli/commands/rollback.js'
import { commands as push } from '../../lib/cli/commands/push.js'
import { commands as target } from '../../lib/cli/commands/target.js'
import { svc } from '../support/svc.js'

/*
 * What becomes of each option of a command that deploys: with `--dry-run`, with `--at`, and for a project on nodes. An option
 * is never dropped. A new one needs a row.
 */

/**
 * `done`: it is carried out. `refused`: the command says what to do instead. `idle`: it is about something that does not
 * happen then: a dry run deploys nothing, an overlay removes nothing.
 */
type Fate = 'done' | 'refused' | 'idle'
type Row = { [Case in 'dryRun' | 'at' | 'nodes']?: Fate }

/** Options that say who asks, for which project, of which files, and how the answer is shown. */
const facts =
  'env server token project out command ignore ignore-builtin list-ignored index json yes all save exit-code'.split(' ')

const done = { dryRun: 'done', at: 'done', nodes: 'done' } as const
const always = { dryRun: 'idle', at: 'done', nodes: 'done' } as const

const judged: Record<string, Record<string, Row>> = {
  push: {
    message: always,
    pre: done,
    post: done,
    'post-deploy-async': always,
    'set-env': always,
    confirm: always,
    'check-from-here': { dryRun: 'idle', at: 'refused', nodes: 'done' },
    at: done,
    canary: done,
    then: done,
    pause: done,
    'max-failures': done,
    'max-unreachable': done,
    'on-failure': done,
    order: done,
    provenance: always,
    wait: always,
    prune: { dryRun: 'done', at: 'done', nodes: 'refused' },
    force: { dryRun: 'done', at: 'done', nodes: 'refused' },
    override: done,
    'sign-key': always,
    'sign-for': always,
    'sign-days': always,
    sbom: always,
    incremental: always,
    'dry-run': { dryRun: 'done', at: 'done', nodes: 'refused' },
    plan: { dryRun: 'refused', at: 'done', nodes: 'refused' },
    witness: always,
    receipt: { dryRun: 'idle', at: 'refused', nodes: 'done' }
  },
  plan: { pre: {}, post: {}, prune: {}, force: {}, override: {}, foreign: {} },
  rollback: {
    to: { dryRun: 'done', nodes: 'done' },
    exact: { dryRun: 'done', nodes: 'refused' },
    overlay: { dryRun: 'done', nodes: 'done' },
    undo: { dryRun: 'done', nodes: 'refused' },
    force: { dryRun: 'done', nodes: 'refused' },
    'dry-run': { dryRun: 'done', nodes: 'refused' },
    witness: { dryRun: 'idle', nodes: 'done' },
    receipt: { dryRun: 'idle', nodes: 'done' },
    message: { dryRun: 'idle', nodes: 'done' }
  },
  undo: { force: {}, 'dry-run': {}, witness: {}, receipt: {}, message: {} },
  repair: { path: {}, 'run-scripts': {}, message: {} },
  promote: {
    release: done,
    confirm: done,
    wait: always,
    override: done,
    at: done,
    receipt: { dryRun: 'idle', at: 'refused', nodes: 'done' },
    'dry-run': { dryRun: 'done', at: 'done', nodes: 'refused' },
    message: always
  },
  apply: { 'dry-run': {}, prune: {}, secrets: {}, 'set-env': {}, receipt: {} }
}

const families = { ...push, ...plan, ...rollback, ...undo, ...promote, ...apply, ...target }

t.test('each option is judged', async t => {
  for (const [name, rows] of Object.entries(judged)) {
    const { options } = families[name as keyof typeof families]
    const found = Object.keys(options).filter(option => !facts.includes(option))
    t.same(found.sort(), Object.keys(rows).sort(), name)
  }
})

t.test('what is refused with --dry-run or --at says why, before anything is read or sent', async t => {
  const with_ = { dryRun: ['--dry-run'], at: ['--at', '23:59'] }
  const needed: Record<string, string[]> = { 'check-from-here': ['--confirm', '90s'] }
  const values: Record<string, string> = { 'check-from-here': 'http://127.0.0.1:1' }
  for (const command of ['push', 'promote'] as const) {
    for (const [option, row] of Object.entries(judged[command] ?? {})) {
      for (const at of ['dryRun', 'at'] as const) {
        if (row[at] !== 'refused') continue
        const words = [...with_[at], `--${option}`, values[option] ?? 'file', ...(needed[option] ?? [])]
        const operands = command === 'promote' ? ['a', 'b', '--yes'] : []
        const ended = await svc([command, ...operands, ...words], { cwd: t.testdir({}) })
        t.match(ended, { code: 2, stderr: new RegExp(`--${option} and .*exclude each other: `) }, words.join(' '))
      }
    }
  }
  const both = await svc(['plan', '--foreign', '--prune=force'], { cwd: t.testdir({}) })
  t.match(both, { code: 2, stderr: /--foreign and --prune exclude each other/ })
})
