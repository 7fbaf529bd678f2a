import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { commands, topics } from '../../lib/cli/command-table.js'
import { main } from '../../lib/cli/entry.js'
import { bare } from '../support/bare.js'
import { svc, svcPath } from '../support/svc.js'
import type { Host } from '../../lib/cli/terminal/output.js'

const names = commands.filter(({ name, hidden }) => name !== 'help' && hidden !== true).map(({ name }) => name)

/**
 * [command line, exit code, what must be on stdout, what must be on stderr]; an empty expectation: nothing may be
 * there.
 */
const cases: Array<[line: string, code: number, stdout: RegExp | '', stderr: RegExp | '']> = [
  ['', 0, /Usage: svc <command>/, ''],
  ['--help', 0, /Usage: svc <command>/, ''],
  ['-h', 0, /Usage: svc <command>/, ''],
  ['help', 0, /Usage: svc <command>/, ''],
  ['help help', 0, /Usage: svc <command>/, ''],
  ['help push', 0, /Usage: svc push/, ''],
  ['help admin reset-password', 0, /Usage: svc admin reset-password/, ''],
  ['reset-password --help', 0, /Usage: svc admin reset-password/, ''],
  ['admin --help', 0, /admin reset-password/, ''],
  ['help fleet', 0, /^svc help fleet: (.*\n)* {2}rollout approve /, ''],
  ['data', 0, /^svc help data: (.*\n)* {2}backup /, ''],
  ['settings --help', 0, /^svc help settings: (.*\n)* {2}config:set /, ''],
  ['help --all', 0, /^Older names:\n {2}plan +now: svc push --dry-run$/m, ''],
  ['--help --all', 0, /^Older names:$/m, ''],
  ['drift --help', 0, /The newer name is "svc files"/, ''],
  ['config set a b', 2, '', /Unknown command "config set": did you mean "config:set"\?/],
  ['rollback --undo --to dep_1', 2, '', /--undo and --to exclude each other/],
  ['files --sums', 2, '', /--sums needs --deep/],
  ['files --path a', 2, '', /--path needs --repair/],
  ['files --repair --fetch a', 2, '', /--fetch excludes --deep and --repair/],
  ['files --repair --deep', 2, '', /exclude each other/],
  ['pusj', 2, '', /Unknown command "pusj": did you mean "push"\?\n.*svc --help/],
  ['help pusj', 2, '', /Unknown command "pusj"/],
  ['up', 2, '', /Unknown command "up": did you mean "push"\?/],
  ['undoo', 2, '', /Unknown command "undoo": did you mean "undo"\?/],
  ['deploy --help', 0, /Usage: svc push/, ''],
  ['ls --help', 0, /Usage: svc list/, ''],
  ['version', 0, /^\d+\.\d+\.\d+\n$/, ''],
  ['frobnicate', 2, '', /^error: Unknown command "frobnicate"\n/],
  ['admin reset', 2, '', /Unknown command "admin reset": did you mean "admin reset-second-factor"\?/],
  ['--json list', 2, '', /Unknown option "--json" before the command/],
  ['push --frobnicate', 2, '', /Unknown option "--frobnicate"\n.*svc push --help/],
  ['push --tokn x', 2, '', /did you mean "--token"\?/],
  ['push --set-env x', 2, '', /--set-env cannot be "x"/],
  ['push --project p --post a --command b', 2, '', /--post and --command/],
  ['push --post-deploy-async=perhaps', 2, '', /choose one of true, false, 1, 0/],
  ['push --post-deploy-async perhaps', 2, '', /Unexpected argument "perhaps"/],
  ['push --env ../x', 2, '', /--env cannot be/],
  ['push extra', 2, '', /Unexpected argument "extra"/],
  ['push', 1, '', /svc\.config\.json.*svc init/],
  ['push --project p', 1, '', /deploy token is missing.*SVC_DEPLOY_TOKEN/],
  ['push --project p --token x', 1, '', /server's address is missing.*--server/],
  ['build', 1, '', /svc\.config\.json/],
  ['logs', 2, '', /<deployId> is missing/],
  ['logs --help', 0, /Usage: svc logs <deployId>/, ''],
  ['logs sources', 0, /logs sources add /, ''],
  ['logs sources --help', 0, /logs sources add /, ''],
  ['help logs sources', 0, /logs sources add /, ''],
  ['logs sources ad', 2, '', /Unknown command "logs sources ad": did you mean "logs sources add"\?/],
  ['logs sources add a.log --project shop', 2, '', /"a\.log" is not absolute/],
  [
    'logs dep_1',
    1,
    '',
    /A token is missing\. Give the admin token, a named one or the project's deploy token.*SVC_TOKEN/
  ],
  ['logs dep_1 --token x --server http://127.0.0.1:1', 1, '', /connection refused by http:\/\/127\.0\.0\.1:1/],
  ['logs dep_1 --token x --server nonsense', 1, '', /--server cannot be "nonsense"/],
  ['status --limit 51', 2, '', /whole number from 1 to 50/],
  ['status --limit 0', 2, '', /whole number from 1 to 50/],
  ['status', 1, '', /svc\.config\.json/],
  ['list --token x', 1, '', /server's address is missing/],
  ['rollback p --token x --server http://127.0.0.1:1', 1, '', /no terminal to ask on: use --yes/],
  ['cancel', 2, '', /<deployId> is missing/],
  ['init', 1, '', /no terminal to ask on: use --project/],
  ['init --project p --token-store cloud', 2, '', /choose one of global, local/],
  ['config:set', 2, '', /<key> is missing/],
  ['config:set colour red', 2, '', /Unknown key "colour": choose one of serverUrl/],
  ['config:set serverurl x', 2, '', /did you mean "serverUrl"\?/],
  ['config:set adminToken x', 2, '', /svc admin reset-password/],
  ['config:set serverUrl nonsense', 2, '', /serverUrl cannot be "nonsense"/],
  ['config:set outputDir dist', 1, '', /there is no svc\.config\.json here/],
  ['admin reset-password', 1, '', /no terminal to ask on: use --random or --password/],
  ['admin reset-password --password short', 1, '', /at least 8 characters/],
  ['admin reset-password --random --password x', 2, '', /cannot be used together/],
  ['serve --port 65536', 2, '', /whole number from 0 to 65535/],
  ['completion', 2, '', /<shell> is missing/],
  ['completion tcsh', 2, '', /choose one of bash, zsh, fish/],
  ['serve --runtime deno', 2, '', /choose one of auto, node, bun/]
]

for (const [line, code, stdout, stderr] of cases) {
  t.test(`svc ${line}: exit code ${code}`, async t => {
    const ended = await svc(line === '' ? [] : line.split(' '), { cwd: t.testdir({}) })
    t.equal(ended.code, code, ended.stderr)
    if (stdout === '') t.equal(ended.stdout, '')
    else t.match(ended.stdout, stdout)
    if (stderr === '') t.equal(ended.stderr, '')
    else t.match(ended.stderr, stderr)
  })
}

/** In this process: a page is the same in any, and fourteen processes take their time. */
async function helpOf(words: string[]): Promise<string> {
  const stdout = new PassThrough({ encoding: 'utf8' })
  const host = {
    env: {},
    cwd: () => '/',
    stdin: process.stdin,
    stdout,
    stderr: stdout,
    on: () => {},
    off: () => {}
  } as unknown as Host
  t.equal(await main([...words, '--help'], host), 0)
  return stdout.read() as string
}

for (const name of names) {
  t.test(`svc ${name} --help describes the command and has an example`, async t => {
    const page = await helpOf(name.split(' '))
    t.match(page, `svc ${name}: `)
    t.match(page, /^Examples?:\n {2}svc /m)
    for (const line of page.split('\n')) t.ok(line.length <= 80, line)
  })
}

t.test('svc alone fits on a terminal, and names the verbs and the topics', async t => {
  const { stdout } = await svc([], { cwd: t.testdir({}) })
  const lines = stdout.trimEnd().split('\n')
  t.ok(lines.length <= 24, `${lines.length} lines`)
  for (const line of lines) t.ok(line.length <= 80, line)
  for (const { name, group } of commands) if (group === 'verbs') t.match(stdout, `\n  ${name} `)
  for (const topic of Object.keys(topics)) t.match(stdout, `\n  ${topic} `)
  const shown = new Set(commands.map(({ group }) => group))
  t.same([...shown].sort(), ['verbs', 'older', ...Object.keys(topics)].sort(), 'every command is found')
})

t.test('svc help --all names every command', async t => {
  const { stdout } = await svc(['help', '--all'], { cwd: t.testdir({}) })
  for (const name of names) t.match(stdout, `  ${name} `)
  for (const line of stdout.split('\n')) t.ok(line.length <= 80, line)
  for (const { name, aliases = [] } of commands) {
    for (const alias of aliases.filter(alias => !name.endsWith(alias)))
      t.match(stdout, `svc ${alias}`, `${alias} is named beside ${name}`)
  }
})

t.test('svc --version prints the version of the package', async t => {
  const top = fileURLToPath(new URL('../../../package.json', import.meta.url))
  const { stdout } = await svc(['--version'], { cwd: t.testdir({}) })
  t.equal(stdout, `${(JSON.parse(readFileSync(top, 'utf8')) as { version: string }).version}\n`)
})

t.test('a closed output pipe is not an error', async t => {
  const { code, stderr } = await svc(['--help'], {
    cwd: t.testdir({}),
    onOutput: (_, child) => child.stdout?.destroy()
  })
  t.equal(code, 0)
  t.equal(stderr, '')
})

/** Runs a command whose output goes to a file, or to a pipe that nobody reads (null). */
async function runTo(path: string | null, words: string[], cwd: string): Promise<{ code: number; stderr: string }> {
  const out = path === null ? 'pipe' : openSync(path, 'w')
  const child = spawn(...bare(process.execPath, [svcPath, ...words]), {
    cwd,
    env: { PATH: process.env['PATH'], HOME: cwd, SVC_HOME: cwd },
    stdio: ['ignore', out, 'pipe']
  })
  child.stdout?.destroy()
  if (typeof out === 'number') closeSync(out)
  let stderr = ''
  child.stderr?.on('data', piece => (stderr += piece))
  const [code] = await once(child, 'close')
  return { code, stderr }
}

t.test('a command whose reader has gone ends with the exit code of its work', async t => {
  t.strictSame(await runTo(null, ['verify'], t.testdir({})), { code: 1, stderr: '' }, 'no database')
  t.strictSame(await runTo(null, ['home'], t.testdir({})), { code: 0, stderr: '' })
})

t.test('output that cannot be written is an error', { skip: !existsSync('/dev/full') && 'no /dev/full' }, async t => {
  const lost = { code: 1, stderr: 'error: Cannot write to standard output: no space left on device\n' }
  for (const words of [['--help'], ['home'], ['logs', '--help']])
    t.strictSame(await runTo('/dev/full', words, t.testdir({})), lost, words.join(' '))
})

t.test('says that the current directory was removed', { skip: process.platform === 'win32' }, async t => {
  const script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$1" config'
  const child = spawn(...bare('/bin/sh', ['-c', script, process.execPath, svcPath]), {
    cwd: t.testdir({}),
    stdio: ['ignore', 'ignore', 'pipe']
  })
  let stderr = ''
  child.stderr?.on('data', piece => (stderr += piece))
  await once(child, 'close')
  t.equal(stderr, 'error: The current directory does not exist any more. Change to another one\n')
})
