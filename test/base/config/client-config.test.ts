import t from 'tap'
import type { Test } from 'tap'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import {
  clientConfigPath,
  listEnvironments,
  parseServerUrl,
  readClientConfig,
  selectEnvironment,
  storeProjectTokens,
  writeClientConfig
} from '../../../lib/base/config/client-config.js'
import { configSays } from '../../support/sentences/config.js'
import { matching } from '../../support/sentences/matching.js'
import type { GlobalConfig } from '../../../lib/base/config/home.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { urlOf } from '../../support/on-loopback.js'

t.test('refuses a wrong value of every key and names file and key', async t => {
  const table: Array<[json: unknown, code: string, sentence: string]> = [
    [{}, 'invalid_config', configSays.projectIdMissing],
    [{ projectId: 1 }, 'invalid_config', `"projectId" is a number${configSays.textExpected}`],
    [{ projectId: ' ' }, 'invalid_config', `"projectId"${configSays.isEmpty}`],
    [{ projectId: 'p', outputDir: 1 }, 'invalid_config', `"outputDir" is a number${configSays.textExpected}`],
    [{ projectId: 'p', outputDir: null }, 'invalid_config', `"outputDir" is null${configSays.textExpected}`],
    [{ projectId: 'p', files: 'dist' }, 'invalid_config', `"files" is "dist"${configSays.listExpected}`],
    [{ projectId: 'p', files: ['a', 'b', 3] }, 'invalid_config', `"files[2]" is a number${configSays.textExpected}`],
    [{ projectId: 'p', ignore: [''] }, 'invalid_config', `"ignore[0]"${configSays.isEmpty}`],
    [
      { projectId: 'p', ignoreBuiltin: 'yes' },
      'invalid_config',
      `"ignoreBuiltin" is "yes"${configSays.switchExpected}`
    ],
    [{ projectId: 'p', serverUrl: 'deploy.example.com' }, 'invalid_config', `"serverUrl"${configSays.addressExpected}`],
    [{ projectId: 'p', serverUrl: 'ftp://x' }, 'invalid_config', `"serverUrl"${configSays.addressExpected}`],
    [{ projectId: 'p', env: [] }, 'invalid_config', `"env" is a list${configSays.objectExpected}`],
    [{ projectId: 'p', env: { PORT: 80 } }, 'invalid_config', `"env.PORT"${configSays.mustBeQuoted}`],
    [{ projectId: 'p', env: { 'A B': '' } }, 'invalid_config', `"env.A B"${configSays.noVariableName}`],
    [{ projectId: 'p', preDeploy: false }, 'invalid_config', `"preDeploy" is a boolean${configSays.textExpected}`],
    [{ projectId: 'p', postDeploy: [] }, 'invalid_config', `"postDeploy" is a list${configSays.textExpected}`],
    [
      { projectId: 'p', postDeployAsync: 'on' },
      'invalid_config',
      `"postDeployAsync" is "on"${configSays.switchExpected}`
    ],
    [{ projectId: 'p', token: 'secret' }, 'token_in_config', configSays.tokenInConfig],
    [{ projectId: 'p', deployToken: 'secret' }, 'token_in_config', configSays.tokenInConfig],
    [{ projectId: 'p', SVC_DEPLOY_TOKEN: 'secret' }, 'token_in_config', configSays.tokenInConfig],
    [[], 'broken_config', configSays.notAnObject]
  ]
  for (const [json, code, sentence] of table) {
    const directory = t.testdir({ 'svc.config.json': JSON.stringify(json) })
    const error = await readClientConfig(directory, null).then(
      () => t.fail('was accepted'),
      (error: unknown) => error
    )
    t.match(error, { code, message: 'svc.config.json' }, sentence)
    t.match((error as Error).message, sentence)
    t.notMatch((error as Error).message, 'secret')
  }
})

t.test('reads a complete file and warns about unknown keys', async t => {
  const config = {
    projectId: 'p',
    outputDir: 'dist',
    files: [],
    ignore: ['*.map'],
    ignoreBuiltin: true,
    serverUrl: 'https://d.example.com/svc/',
    env: { A: '' },
    preDeploy: '',
    postDeploy: 'x',
    postDeployAsync: false
  }
  const directory = t.testdir({
    'svc.config.prod.json': JSON.stringify({ ...config, $schema: 'x', output_dir: 1, later: 2 })
  })
  const file = await readClientConfig(directory, 'prod')
  t.match(file.config, config)
  t.equal(file.env, 'prod')
  t.strictSame(
    file.warnings.map(warning => warning.replace(/^.*prod\.json: /, '')),
    [configSays.unknownKey('output_dir') + configSays.didYouMean('outputDir'), configSays.unknownKey('later')]
  )
})

t.test('names the nearest key, also if it is that of the project', async t => {
  const directory = t.testdir({
    'svc.config.a.json': '{"projectId": "p", "ouputDir": "x"}',
    'svc.config.b.json': '{"projectid": "p"}'
  })
  t.match((await readClientConfig(directory, 'a')).warnings, [/"ouputDir"\. Did you mean "outputDir"\?$/])
  const message = /projectId is missing\. Write "projectId" in place of "projectid"$/
  await t.rejects(readClientConfig(directory, 'b'), { code: 'invalid_config', message })
})

t.test('names a missing or broken file', async t => {
  const directory = t.testdir({ 'svc.config.b.json': '{,}' })
  await t.rejects(readClientConfig(directory, null), { code: 'no_client_config', message: configSays.initWritesOne })
  await t.rejects(readClientConfig(directory, 'b'), {
    code: 'broken_config',
    message: matching(configSays.unreadable('svc.config.b.json'), /.* in line 1,/)
  })
})

t.test('selects the environment', async t => {
  const file = '{"projectId": "p"}'
  const table: Array<[files: string[], env: string | null, selection: unknown]> = [
    [[], null, { outcome: 'none' }],
    [['svc.config.json'], null, { outcome: 'found', env: null }],
    [['svc.config.prod.json'], null, { outcome: 'found', env: 'prod' }],
    [['svc.config.json', 'svc.config.prod.json'], null, { outcome: 'found', env: null }],
    [['svc.config.json', 'svc.config.prod.json'], 'prod', { outcome: 'found', env: 'prod' }],
    [
      ['svc.config.prod.json', 'svc.config.dev.json'],
      null,
      { outcome: 'ambiguous', environments: ['dev', 'prod'], hasDefault: false }
    ],
    [
      ['svc.config.json', 'svc.config.b.json', 'svc.config.a.json'],
      null,
      { outcome: 'ambiguous', environments: ['a', 'b'], hasDefault: true }
    ],
    [['svc.config.json', 'svc.config.b.json', 'svc.config.a.json'], 'default', { outcome: 'found', env: null }],
    [['svc.config.json', 'svc.config.default.json'], 'default', { outcome: 'found', env: 'default' }],
    [
      ['svc.config.json', 'svc.config..json', 'svc.config.a b.json', 'xsvc.config.c.json'],
      null,
      { outcome: 'found', env: null }
    ]
  ]
  for (const [files, env, selection] of table) {
    const directory = t.testdir(Object.fromEntries(files.map(name => [name, file])))
    t.strictSame(await selectEnvironment(directory, env), selection, files.join(' '))
  }
})

t.test('refuses an environment without a file and lists the existing ones', async t => {
  const directory = t.testdir({ 'svc.config.json': '{}', 'svc.config.prod.json': '{}' })
  await t.rejects(selectEnvironment(directory, 'pord'), {
    code: 'no_such_environment',
    message: configSays.noFileForEnvironment(
      'svc\\.config\\.pord\\.json',
      'svc\\.config\\.json \\(--env default\\), svc\\.config\\.prod\\.json'
    )
  })
  for (const env of ['../x', 'a/b', '', '.', 'a b']) {
    await t.rejects(selectEnvironment(directory, env), { code: 'invalid_env' }, `"${env}"`)
  }
  t.throws(() => clientConfigPath('/', '..'), { code: 'invalid_env' })
  t.strictSame(await listEnvironments(directory), [null, 'prod'])
  t.strictSame(await listEnvironments(join(directory, 'none')), [])
})

t.test('checks a configuration before it is written', async t => {
  const directory = t.testdir({})
  const path = await writeClientConfig(directory, 'prod', { projectId: 'p', outputDir: 'dist' })
  t.equal(path, join(directory, 'svc.config.prod.json'))
  t.equal(await readFile(path, 'utf8'), '{\n  "projectId": "p",\n  "outputDir": "dist"\n}\n')
  await writeFile(path, 'kept')
  await t.rejects(writeClientConfig(directory, 'prod', { projectId: '' }), { code: 'invalid_config' })
  t.equal(await readFile(path, 'utf8'), 'kept')
})

t.test('accepts addresses of servers without a query, fragment or password', t => {
  const table: Array<[address: string, parsed: string | null]> = [
    ['http://127.0.0.1:5431', 'http://127.0.0.1:5431'],
    ['https://a.example/svc/', 'https://a.example/svc'],
    ['https://a.example//', 'https://a.example'],
    ['HTTP://A.example', 'http://a.example'],
    ['localhost:5431', null],
    ['https://a.example/?x=1', null],
    ['https://a.example/#x', null],
    ['https://user:pass@a.example', null],
    ['', null]
  ]
  for (const [address, parsed] of table) t.equal(parseServerUrl(address), parsed, address)
  t.end()
})

const admin = 'the-admin-token-of-another-server'
const deploy = 'the-deploy-token-of-another-server'
const elsewhere = 'https://deploy.example.com'

/** Starts a server that records the `Authorization` header of each request, and lists no projects. */
async function startListener(
  t: Test,
  answer: { status?: number; location?: string } = {}
): Promise<{ url: string; heard: Array<string | undefined> }> {
  const heard: Array<string | undefined> = []
  const server = createServer((request, response) => {
    heard.push(request.headers.authorization)
    request.resume()
    const { status = 200, location } = answer
    response.writeHead(status, { 'content-type': 'application/json', ...(location && { location }) }).end('[]')
  })
  return { url: await urlOf(t, server), heard }
}

const global = (config: object) => ({ '.svc': { 'config.json': JSON.stringify(config) } })
const project = (serverUrl?: string) => ({
  'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl }),
  'index.html': 'x'
})
const read = (cwd: string) => JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as Record<string, unknown>

t.test(
  'stores project tokens with the origin of their server, and without an origin if no server is known',
  async t => {
    const config: GlobalConfig = {}
    storeProjectTokens(config, { proj_1: 'one' }, undefined)
    t.strictSame(config, { projectToken: { proj_1: 'one' } })
    storeProjectTokens(config, { proj_2: 'two' }, 'https://deploy.example.com/svc/')
    t.strictSame(config, { projectToken: { proj_1: 'one', proj_2: 'two' }, projectTokenOrigin: { proj_2: elsewhere } })
    storeProjectTokens(config, { proj_2: 'other' }, undefined)
    t.strictSame(
      config,
      { projectToken: { proj_1: 'one', proj_2: 'other' } },
      'the old origin does not apply to the new token'
    )
  }
)

t.test('does not send a stored token to a server that a checkout names', async t => {
  const { url, heard } = await startListener(t)
  const stored = { serverUrl: elsewhere, token: admin, projectToken: { proj_1: deploy } }
  const attacks: Array<[what: string, files: object, env?: Record<string, string>]> = [
    ['svc.config.json', { ...project(url), ...global(stored) }],
    ['.env.local', { ...project(), '.env.local': `SVC_SERVER_URL=${url}\n`, ...global(stored) }],
    [
      'a token without a server belongs to the default address',
      { ...project(url), ...global({ token: admin, projectToken: { proj_1: deploy } }) }
    ],
    [
      'an origin of its own',
      {
        ...project(),
        ...global({ ...stored, serverUrl: url, tokenOrigin: elsewhere, projectTokenOrigin: { proj_1: elsewhere } })
      }
    ],
    [
      'a global server that cannot be read',
      { ...project(url), ...global({ ...stored, serverUrl: 'deploy.example.com' }) }
    ],
    ['a variable that names only the server', { ...project(), ...global(stored) }, { SVC_SERVER_URL: url }]
  ]
  for (const [what, files, env = {}] of attacks) {
    const cwd = t.testdir(files as never)
    // Each source with each of the two tokens; the first source with every command.
    const isFirst = what === attacks[0]?.[0]
    const others = isFirst
      ? [
          ['status'],
          ['logs', 'dep_1'],
          ['logs', '-f', 'dep_1'],
          ['cancel', 'dep_1'],
          ['tail', 'app.log'],
          ['rollback', '--yes']
        ]
      : []
    for (const words of [['list'], ['push'], ...others]) {
      const { code, stderr } = await svc(words, { cwd, env })
      t.equal(code, 1, `${what}: ${words.join(' ')}`)
      t.match(
        stderr,
        matching(/error: .*/, configSays.notSentTo(url), /.*/, configSays.belongsToOrigin(''), /(https?:\/\/)?[\w.:]+/)
      )
      t.notMatch(stderr, /the-(admin|deploy)-token/)
    }
    if (!isFirst) continue
    const { code, stdout } = await svc(['doctor'], { cwd, env })
    t.match(stdout, matching(/Server details: .*/, configSays.belongsToOrigin('')), what)
    t.equal(typeof code, 'number')
  }
  t.same([...new Set(heard)], [undefined], 'only requests without a token arrived')
})

t.test('sends a stored token to its own origin, whatever the path', async t => {
  const { url, heard } = await startListener(t)
  const places = [
    { ...global({ serverUrl: `${url}/a`, token: admin }) },
    { ...project(`${url}/prefix/b`), ...global({ serverUrl: `${url}/a`, token: admin }) },
    { ...project(url), ...global({ serverUrl: elsewhere, token: admin, tokenOrigin: url }) },
    { ...project(url), ...global({ serverUrl: elsewhere, token: admin, tokenOrigin: `${url.toUpperCase()}/path/` }) }
  ]
  for (const files of places) t.equal((await svc(['list'], { cwd: t.testdir(files as never) })).code, 0)
  t.same(
    heard,
    places.map(() => `Bearer ${admin}`)
  )
})

t.test('sends a token given with the command to any server', async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({ ...project(url), ...global({ serverUrl: elsewhere, token: admin }) })
  t.equal((await svc(['list', '--token', 'given'], { cwd })).code, 0)
  t.equal((await svc(['list'], { cwd, env: { SVC_TOKEN: 'set' } })).code, 0)
  t.same(heard, ['Bearer given', 'Bearer set'])
})

t.test('asks on a terminal before a token is sent to another origin', { skip: noTerminal }, async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({ ...project(url), ...global({ serverUrl: elsewhere, token: admin }) })
  const question = `to ${url}? [y/N]: `
  const no = await svcOnTerminal(['list'], [{ see: question, type: '\r' }], { cwd })
  t.match(no, { code: 1, text: configSays.notSentTo(url) })
  t.same(heard, [])
  const yes = await svcOnTerminal(['list'], [{ see: question, type: 'y\r' }], { cwd })
  t.match(yes, { code: 0, text: configSays.belongsToOrigin(elsewhere) })
  t.same(heard, [`Bearer ${admin}`])
  t.notMatch(yes.text, admin)
})

t.test('stores and prints the origin of a token in config:set token', async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({ ...project(url), ...global({ serverUrl: elsewhere }) })
  const asDeploy = await svc(['config:set', 'token', '-'], { cwd, input: deploy })
  t.match(asDeploy.stdout, `for ${url} (`)
  const asAdmin = await svc(['config:set', '--global', 'token', '-'], { cwd, input: admin })
  t.match(asAdmin.stdout, `for ${elsewhere} (`, 'the server of a checkout does not apply to the admin token')
  t.match(read(cwd), { projectToken: { proj_1: deploy }, projectTokenOrigin: { proj_1: url }, tokenOrigin: elsewhere })

  t.equal((await svc(['list'], { cwd })).code, 1)
  const named = await svc(['config:set', '--global', 'token', '-', '--server', `${url}/prefix`], { cwd, input: admin })
  t.match(named.stdout, `for ${url} (`)
  t.equal((await svc(['list'], { cwd })).code, 0)
  await svc(['push'], { cwd })
  const asked = [`Bearer ${admin}`, `Bearer ${deploy}`, `Bearer ${deploy}`, `Bearer ${deploy}`]
  t.same(heard, asked, 'a push asks twice first')

  t.match(await svc(['config:set', 'outputDir', 'x', '--server', url], { cwd }), { code: 2, stderr: /--server/ })
})

t.test('uses the global server for a token that was stored before any server was known', async t => {
  const { url, heard } = await startListener(t)
  const cwd = t.testdir({})
  await svc(['config:set', 'token', '-'], { cwd, input: admin })
  await svc(['config:set', 'serverUrl', url], { cwd })
  t.equal((await svc(['list'], { cwd })).code, 0)
  t.same(heard, [`Bearer ${admin}`])
})

t.test('binds the token to the chosen server in init, in either store', async t => {
  const { url, heard } = await startListener(t)
  const words = ['init', '--project', 'proj_1', '--token', deploy, '--force', '--server']
  for (const store of ['global', 'local']) {
    const cwd = t.testdir({ 'index.html': 'x', ...global({ serverUrl: url }) })
    await svc([...words, elsewhere, '--token-store', store], { cwd })
    const moved = await svc(['push', '--server', url], { cwd })
    t.match(
      moved,
      { code: 1, stderr: matching(configSays.notSentTo(url), /.*/, configSays.belongsToOrigin(elsewhere)) },
      store
    )
    await svc([...words, url, '--token-store', store], { cwd })
    await svc(['push'], { cwd })
  }
  t.same(
    heard,
    [1, 2, 3, 4, 5, 6].map(() => `Bearer ${deploy}`),
    'each push asks twice first'
  )
})

t.test('shows where each token may be sent', async t => {
  const cwd = t.testdir({ ...project('https://other.example.com'), ...global({ serverUrl: elsewhere, token: admin }) })
  const { stdout, stderr } = await svc(['config'], { cwd, env: { SVC_DEPLOY_TOKEN: deploy } })
  t.match(stdout, /adminToken +\*\*\*\*rver +global .* https:\/\/deploy\.example\.com$/m)
  t.match(stdout, /deployToken +\*\*\*\*rver +environment +SVC_DEPLOY_TOKEN +any server$/m)
  t.match(stderr, /warning: .*admin token.*is not sent to https:\/\/other\.example\.com/)
  const rows = JSON.parse((await svc(['config', '--json'], { cwd })).stdout) as Array<{ key: string }>
  t.match(
    rows.find(({ key }) => key === 'adminToken'),
    { value: '****rver', origin: elsewhere }
  )
})

t.test('does not follow a redirect, with or without a token', async t => {
  for (const status of [301, 302, 303, 307, 308]) {
    const other = await startListener(t)
    const { url, heard } = await startListener(t, { status, location: `${other.url}/api/projects` })
    const cwd = t.testdir(project(url))
    const { code, stderr } = await svc(['list', '--token', 'given'], { cwd })
    t.equal(code, 1)
    t.match(stderr, /redirects to/)
    if (status === 301) {
      await svc(['push', '--token', 'given'], { cwd })
      await svc(['verify', '--check-server'], { cwd: t.testdir(global({ serverUrl: url })) })
    }
    t.same(heard, status === 301 ? ['Bearer given', 'Bearer given', undefined] : ['Bearer given'])
    t.same(other.heard, [])
  }
})
