import { createHash } from 'node:crypto'
import t from 'tap'
import { readChanges, writeChanges } from '../../lib/base/shared/audit.js'
import { beyondDefaults, changes, type Readers, hiddenValue, showing } from '../../lib/model/readers.js'
import type { Check } from '../../lib/model/policy.js'
import { type Project, newProject, projectReaders } from '../../lib/model/project.js'
import { maskedAddress } from '../../lib/model/setting.js'

const digestOf = (text: string): string => `SHA-256 ${createHash('sha256').update(text).digest('hex')}`
const made = newProject({ name: 'shop', deployPath: '/a' }, { id: 'proj_a', token: 'canary-of-a-token', at: '2030' })

/** Returns the lines of a change of a project. */
function linesOf(before: Partial<Project>, after: Partial<Project>): string[] {
  const changed = changes({ ...made, ...before }, { ...made, ...before, ...after }, projectReaders)
  return writeChanges('', changed).split('\n').slice(1)
}

t.test('only the fields that differ are listed, each with both values', t => {
  t.same(linesOf({}, { deployPath: '/b', postDeployAsync: true }), [
    'deployPath: /a → /b',
    'postDeployAsync: false → true'
  ])
  t.same(linesOf({}, { deployPath: '/a', description: '', umask: null }), [], 'nothing')
  t.same(linesOf({}, { runAs: 'www' }), ['runAs: none → www'])
  t.same(linesOf({ tagIds: ['a', 'b'] }, { tagIds: ['a', 'c, d'] }), ['tagIds: a, b → a, "c, d"'])
  t.end()
})

t.test('a policy is compared key by key, and its checks one by one', t => {
  const gate = { interval: 1, timeout: 5, deadline: 30, successes: 2, stableFor: 0, onFailure: 'revert' } as const
  const check: Check = { http: 'http://127.0.0.1:3000/up', header: { Authorization: 'canary-1' } }
  const command: Check = { command: 'canary-of-a-command' }
  t.same(
    linesOf(
      { policy: { prune: 'off', protect: [], gate: { ...gate, after: [check] } } },
      {
        policy: {
          prune: 'managed',
          protect: ['*.db', 'up/**'],
          gate: { ...gate, deadline: 60, after: [{ ...check, header: { Authorization: 'canary-2' } }, command] }
        }
      }
    ),
    [
      'policy.gate.after[0].header.Authorization: changed',
      `policy.gate.after[1].command: none → ${digestOf('canary-of-a-command')}`,
      'policy.gate.deadline: 30 → 60',
      'policy.prune: off → managed',
      'policy.protect: none → *.db, up/**'
    ]
  )
  t.end()
})

t.test('scripts are shown as their digests and secrets not at all', t => {
  t.same(linesOf({ preDeployScript: 'one' }, { preDeployScript: 'two' }), [
    `preDeployScript: ${digestOf('one')} → ${digestOf('two')}`
  ])
  t.same(linesOf({ preDeployScript: 'one' }, { preDeployScript: '' }), [`preDeployScript: ${digestOf('one')} → none`])
  t.same(linesOf({}, { token: 'canary-of-another' }), ['token: changed'])
  interface Hook {
    url: string
    secret: string
  }
  const readers: Readers<Hook> = { fields: { url: { without: maskedAddress }, secret: 'nobody' } }
  const before = { url: 'https://hook.example/canary-1', secret: '' }
  const text = (after: Hook): string => writeChanges('Team', changes<Hook>(before, after, readers))
  t.equal(
    text({ url: 'https://other.example/canary-2', secret: 'canary-3' }),
    'Team\nurl: https://hook.example/… → https://other.example/…\nsecret: none → ***'
  )
  t.equal(text({ ...before, url: 'https://hook.example/canary-4' }), 'Team\nurl: changed')
  t.end()
})

t.test('a new record lists what it has beyond the defaults', t => {
  const changed = beyondDefaults({ ...made, deployPath: '' }, { ...made, env: 'staging', pinned: true }, projectReaders)
  t.equal(writeChanges('shop', changed), 'shop\ndeployPath: /a\nenv: staging\npinned: true')
  t.end()
})

t.test('what is written is read again, whatever the values are', t => {
  const values = [
    'plain',
    'two words',
    ' edge ',
    '',
    'none',
    'changed',
    '***',
    'a → b',
    'say "a → b"',
    '"',
    '\\',
    'two\nlines: x',
    'x\u202ey',
    'é'.repeat(301),
    '🎈'.repeat(200)
  ]
  for (const from of values) {
    for (const to of values) {
      if (from === to) continue
      const changed = changes<Project>({ description: from }, { description: to }, projectReaders)
      const detail = writeChanges('shop: a → b', changed)
      t.same(readChanges(detail), { subject: 'shop: a → b', changes: changed }, JSON.stringify([from, to]))
      t.equal(detail.split('\n').length, 2)
      t.notMatch(detail, '\u202e')
      t.ok(detail.length < 1_000)
    }
  }
  t.end()
})

t.test('values that differ only beyond what is shown are told apart', t => {
  const long = 'x'.repeat(400)
  const [line] = linesOf({ description: `${long}a` }, { description: `${long}b` })
  t.match(line, /^description: x{200}… \(SHA-256 [0-9a-f]{64}\) → x{200}… \(SHA-256 [0-9a-f]{64}\)$/)
  t.end()
})

interface Note {
  title: string
  text: string | null
  secret: string
  parts: Array<{ name: string; script: string }>
  header?: Record<string, string>
}

const readers: Readers<Note> = {
  fields: {
    title: { without: text => text.replace('secret', '…') },
    text: 'scripts',
    secret: 'admins',
    parts: { items: { fields: { name: 'everybody', script: 'scripts' } } },
    header: { values: 'nobody' }
  }
}
const note: Note = {
  title: 'a secret',
  text: 'text',
  secret: 's',
  parts: [
    { name: 'a', script: 'run' },
    { name: 'b', script: '' }
  ],
  header: { Authorization: 'Bearer x' }
}
const header = { Authorization: hiddenValue }

t.test('shows each caller what its table says', async t => {
  t.same(showing<Note>(readers, 'admin')(note), { ...note, header })
  t.same(showing<Note>(readers, 'scripts')(note), { ...note, secret: null, header })
  t.same(showing<Note>(readers, 'plain')(note), {
    title: 'a …',
    text: null,
    secret: null,
    parts: [
      { name: 'a', script: null },
      { name: 'b', script: null }
    ],
    header
  })
})

t.test('does not copy a record in which nothing is hidden, and keeps absent fields absent', async t => {
  const { header: _, ...plain } = note
  t.equal(showing<Note>(readers, 'admin')(plain), plain)
  t.equal(showing<Note>(readers, 'admin')(plain).parts, plain.parts)
  const bare = { title: 'x', text: null, parts: [] }
  t.equal(showing<Note>(readers, 'plain')(bare), bare)
  t.same(note.parts[0], { name: 'a', script: 'run' }, 'the record itself is unchanged')
})
