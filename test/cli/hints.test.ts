import t from 'tap'
import { detachedLine, flagsOf, followLine, nextLine, projectHint } from '../../lib/cli/hints.js'
import { commands } from '../../lib/cli/command-table.js'
import { rolloutDetail } from '../support/a-rollout.js'
import { svc } from '../support/svc.js'

const row = { type: 'text', help: '' } as const

t.test('a hint names existing options of the command', async t => {
  t.equal(projectHint({ options: { project: row }, operands: {} }), 'name the project with --project')
  t.equal(projectHint({ options: {}, operands: { projectId: { help: '' } } }), 'give the <projectId>')
  t.equal(projectHint({ options: {}, operands: {} }), null)
  t.equal(flagsOf({ options: { server: row }, operands: {} }, 'server'), '--server or ')
  t.equal(flagsOf({ options: {}, operands: {} }, 'server'), '')
})

t.test('no error suggests an option that the command does not have', async t => {
  const file = JSON.stringify({ projectId: 'proj_1' })
  const places: Record<string, object> = {
    'an empty directory': {},
    'two environments': { 'svc.config.a.json': file, 'svc.config.b.json': file },
    'no server': { 'svc.config.json': file, 'index.html': 'x' },
    'no token': {
      'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: 'http://127.0.0.1:1' }),
      'index.html': 'x'
    },
    'a token of another server': {
      'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: 'http://127.0.0.1:1' }),
      '.svc': { 'config.json': JSON.stringify({ token: 'x', projectToken: { proj_1: 'y' } }) }
    }
  }
  const lines = [
    ['build'],
    ['push'],
    ['status'],
    ['rollback'],
    ['rollback', '--yes'],
    ['list'],
    ['logs', 'dep_1'],
    ['cancel', 'dep_1'],
    ['doctor'],
    ['config'],
    ['init']
  ]
  for (const [place, files] of Object.entries(places)) {
    const cwd = t.testdir(files as never)
    await Promise.all(
      lines.map(async words => {
        const command = await commands.find(({ name }) => name === words[0])!.load()
        const { stdout, stderr } = await svc(words, { cwd })
        // What it says of other commands is theirs.
        const own = (stdout + stderr).replace(/"svc [^"]*"/g, '')
        for (const [named] of own.matchAll(/--[a-z][a-z-]+/g)) {
          t.ok(
            named === '--help' || Object.hasOwn(command.options, named.slice(2)),
            `${words.join(' ')} in ${place}: ${named}`
          )
        }
      })
    )
  }
})

t.test('followLine repeats the options that select the project, but never a token', async t => {
  t.equal(followLine('dep_1'), 'svc logs -f dep_1')
  t.equal(followLine(null), 'svc status')
  const given = { env: 'live', server: 'https://a.test/b', project: 'proj_1', token: 'secret' }
  t.equal(
    followLine('dep_1', given),
    'svc logs -f dep_1 --env live --server https://a.test/b --project proj_1 --token -'
  )
  t.equal(followLine(null, given), 'svc status proj_1 --env live --server https://a.test/b --token -')
  t.equal(followLine('dep_1', { env: "it's" }), `svc logs -f dep_1 --env 'it'\\''s'`)
})

t.test('the hints repeat the options of the command, and never a token', async t => {
  const given = { server: 'https://deploy.example.org', token: 'secret' }
  const options = '--server https://deploy.example.org --token -'
  t.equal(
    detachedLine('ro_a', given),
    `Detached: the rollout continues. Halt it with: svc rollout halt ro_a ${options}\n` +
      `To watch it again: svc rollout status ro_a --follow ${options}`
  )
  const next = (state: 'approval' | 'halted' | 'done' | 'swapping') => nextLine(rolloutDetail([], { state }), {})
  t.equal(next('approval'), 'next: svc rollout approve ro_a   or   svc rollout halt ro_a')
  t.equal(next('halted'), 'next: svc rollout revert ro_a   or   svc rollout resume ro_a')
  t.equal(next('done'), null)
  t.equal(next('swapping'), null)
})
