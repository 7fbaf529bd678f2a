import t from 'tap'
import { detachedLine, flagsOf, followLine, nextLine, projectHint, meantBy, inOptions } from '../../lib/cli/hints.js'
import { commands, topics } from '../../lib/cli/command-table.js'
import { rolloutDetail } from '../support/a-rollout.js'
import { svc, bareEnvironment, programHere } from '../support/svc.js'
import { shownFlag } from '../../lib/cli/command.js'
import { startFleet } from '../support/fleet-on-server.js'

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
  const reverted = (counts: { stuck?: number }) => nextLine({ id: 'ro_a', state: 'reverted', counts }, {})
  t.same([reverted({ stuck: 1 }), reverted({})], ['next: svc rollout revert ro_a', null])
  t.equal(next('swapping'), null)
})

t.test('another spelling, another word and a typing error get the command that was meant', async t => {
  const cases: Array<[typed: string, meant: string | undefined]> = [
    ['psuh', 'push'],
    ['stauts', 'status'],
    ['undoo', 'undo'],
    ['tokens', 'token list'],
    ['tokens list', 'token list'],
    ['token revok', 'token revoke'],
    ['rollouts', 'rollout list'],
    ['rollouts halt', 'rollout halt'],
    ['project list', 'projects list'],
    ['projects:create', 'projects create'],
    ['env:set', 'env set'],
    ['config set', 'config:set'],
    ['config set a b', 'config:set'],
    ['config-set', 'config:set'],
    ['telemetry status', 'telemetry:status'],
    ['telemetry', 'telemetry:status'],
    ['fleet:nodes', 'fleet nodes'],
    ['nodes', 'fleet nodes'],
    ['nodes list', 'fleet nodes'],
    ['fleet list', 'fleet nodes'],
    ['fleet status', 'fleet nodes'],
    ['users', 'token list'],
    ['deployments', 'status'],
    ['variables', 'env list'],
    ['secrets', 'env list'],
    ['audits', 'audit list'],
    ['audit log', 'audit list'],
    ['key rotate', 'keys rotate'],
    ['backups', 'backup'],
    ['acces', 'access'],
    ['push:now', 'push'],
    ['up', 'push'],
    ['projects env', 'env list'],
    ['admin token', 'admin reset-password'],
    ['server start', 'serve'],
    ['restart', 'serve'],
    ['delete shop', 'projects delete'],
    ['stats', 'status'],
    ['notifications', 'notify list'],
    ['webhooks', 'notify list'],
    ['frobnicate', undefined]
  ]
  for (const [typed, meant] of cases) t.equal(meantBy(typed.split(' '), commands, topics), meant, typed)
})

t.test('what is meant is a command or a topic', async t => {
  const words = ['up', 'users', 'settings', 'hub', 'get', 'stat', 'man', 'diff', 'create', 'accept', 'roles']
  const names = [...commands.flatMap(({ name, aliases = [] }) => [name, ...aliases]), ...Object.keys(topics)]
  for (const word of words) t.ok(names.includes(meantBy([word], commands, topics) as string), word)
})

const rowOfSuggestions = { type: 'text', help: 'a' } as const
const command = {
  options: { for: rowOfSuggestions, path: rowOfSuggestions, name: rowOfSuggestions },
  operands: { token: { help: 'a' } },
  fields: { seconds: { duration: '--for' }, deployPath: '--path', projectIds: '--path' }
}

t.test('a refusal names the option of a field', async t => {
  const cases: Array<[field: string | undefined, message: string, shown: string]> = [
    [undefined, '"seconds" is 1', '"seconds" is 1'],
    ['seconds', '"seconds" is 8553600: must be between 60 and 604800', '--for is 99d: must be between 1m and 7d'],
    ['seconds', '"seconds" is 7205: must be between 90 and 3600', '--for is 7205s: must be between 90s and 1h'],
    ['deployPath', 'deployPath is invalid: "rel" is no path', '--path is invalid: "rel" is no path'],
    ['deployPath', 'deployPath is invalid: "deployPath" is no path', 'deployPath is invalid: --path is no path'],
    ['projectIds[0]', '"projectIds[0]" is unknown', '--path is unknown'],
    ['name', '"name" is missing', '--name is missing'],
    ['token', '"token" is empty', '<token> is empty'],
    ['name', 'The name "x" is already used', 'The name "x" is already used'],
    ['other', '"other" is missing', '"other" is missing']
  ]
  for (const [field, message, shown] of cases)
    t.equal(inOptions({ kind: 'invalid', code: 'invalid_field', field, message }, command), shown)
  t.equal(inOptions({ kind: 'usage', code: 'usage', field: 'name', message: '"name" is' }, command), '"name" is')
  const outside = { kind: 'conflict', code: 'outside_window', message: 'Give a reason', field: undefined } as const
  const withOption = { ...command, options: { override: rowOfSuggestions } }
  t.equal(inOptions(outside, withOption), 'Give a reason. --override gives the reason')
  t.equal(inOptions(outside, command), 'Give a reason', 'a command without the option does not name it')
})

t.test('the options that commands name for fields exist', async t => {
  for (const { name, family, load } of commands) {
    if (family === null) continue
    const { fields = {}, options, operands = {} } = await load()
    const named = Object.entries(options).flatMap(([flag, own]) => [`--${flag}`, shownFlag(flag, own)])
    const flags = [...named, ...Object.keys(operands)]
    for (const given of Object.values(fields))
      t.ok(flags.includes(typeof given === 'object' ? given.duration : given), `${name}: ${JSON.stringify(given)}`)
  }
})

t.test('the server refuses fields, and svc names options', async t => {
  const { stage, env } = await startFleet(t, ['web-1'])
  const cases: Array<[line: string, says: RegExp]> = [
    ['fleet enroll --for 99d', /^error: --for is 99d: must be between 1m and 7d$/m],
    ['lock shop --reason a --for 99d', /^error: --for is 99d: must be between 1m and 30d$/m],
    ['projects create new --path rel', /^error: --path is invalid: "rel" is not an absolute path$/m],
    ['projects set shop --path rel', /^error: --path is invalid: "rel" is not an absolute path$/m],
    ['projects set shop --umask x', /^error: --umask /m],
    ['token create new --role viewer --ip nonsense', /^error: --ip /m],
    ['fleet place shop --on web-1 --path rel', /^error: .*--path/m]
  ]
  for (const [line, says] of cases) {
    let text = ''
    const cwd = stage.sites
    const program = programHere({ cwd, env: bareEnvironment(cwd, env), hear: (_, said) => void (text += said) })
    t.equal(await program.run(line.split(' ')), 1, line)
    t.match(text, says, line)
  }
})
