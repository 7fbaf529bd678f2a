import t from 'tap'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { svc } from '../../support/svc.js'

const token = 'a-deploy-token-of-some-length'

t.test('config shows each value, its source, and the last four characters of tokens', async t => {
  const cwd = t.testdir({
    'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: 'https://project.test', outputDir: 'dist' }),
    '.env.local': `SVC_DEPLOY_TOKEN=${token}\n`,
    '.svc': {
      'config.json': JSON.stringify({ serverUrl: 'https://global.test', token: 'an-admin-token-of-some-length' })
    }
  })
  const { code, stdout } = await svc(['config'], { cwd, env: { SVC_SERVER_URL: 'https://variable.test/a/' } })
  t.equal(code, 0)
  t.match(stdout, /serverUrl +https:\/\/variable\.test\/a +environment +SVC_SERVER_URL/)
  t.match(stdout, /projectId +proj_1 +project +.*svc\.config\.json/)
  t.match(stdout, /deployToken +\*\*\*\*ngth +\.env\.local/)
  t.match(stdout, /adminToken +\*\*\*\*ngth +global/)
  t.match(stdout, /postDeployAsync +false +default/)
  t.notMatch(stdout, token)

  const json = await svc(['config', '--json'], { cwd })
  const rows = JSON.parse(json.stdout) as Array<{ key: string; value: string; source: string }>
  t.match(
    rows.find(row => row.key === 'serverUrl'),
    { value: 'https://project.test', source: 'project' }
  )
  t.notMatch(json.stdout, token)
})

t.test('config --env reads the file of that environment', async t => {
  const cwd = t.testdir({
    'svc.config.json': JSON.stringify({ projectId: 'proj_1' }),
    'svc.config.staging.json': JSON.stringify({ projectId: 'proj_2' })
  })
  t.match((await svc(['config', '--env', 'staging'], { cwd })).stdout, /projectId +proj_2/)
  t.match(await svc(['config', '--env', 'nowhere'], { cwd }), {
    code: 1,
    stderr: /Cannot find svc\.config\.nowhere\.json/
  })
})

t.test('warns of an unknown key', async t => {
  const cwd = t.testdir({ 'svc.config.json': JSON.stringify({ projectId: 'proj_1', outDir: 'dist' }) })
  t.match((await svc(['config'], { cwd })).stderr, /warning: .*unknown key "outDir"/)
})

const read = (cwd: string, path: string) => JSON.parse(readFileSync(join(cwd, path), 'utf8')) as Record<string, unknown>
const project = { 'svc.config.json': JSON.stringify({ projectId: 'proj_1' }) }

t.test('config:set without a project writes the global file, which only its owner can read', async t => {
  const cwd = t.testdir({})
  const { code, stdout } = await svc(['config:set', 'serverUrl', 'https://deploy.test/'], { cwd })
  t.equal(code, 0)
  t.match(stdout, /^serverUrl = https:\/\/deploy\.test \(.*config\.json\)\n$/)
  t.strictSame(read(cwd, '.svc/config.json'), { serverUrl: 'https://deploy.test' })
  t.equal(statSync(join(cwd, '.svc/config.json')).mode & 0o777, 0o600)
})

t.test('config:set with a project writes its file, and --global does not', async t => {
  const cwd = t.testdir(project)
  await svc(['config:set', 'serverUrl', 'https://deploy.test'], { cwd })
  await svc(['config:set', 'ignore', '*.map, docs/**'], { cwd })
  await svc(['config:set', 'postDeployAsync', 'true'], { cwd })
  await svc(['config:set', 'serverUrl', 'https://global.test', '--global'], { cwd })
  t.strictSame(read(cwd, 'svc.config.json'), {
    projectId: 'proj_1',
    serverUrl: 'https://deploy.test',
    ignore: ['*.map', 'docs/**'],
    postDeployAsync: true
  })
  t.strictSame(read(cwd, '.svc/config.json'), { serverUrl: 'https://global.test' })
})

t.test("config:set token never writes the project's file or shows the token", async t => {
  const cwd = t.testdir({ ...project, 'svc.config.staging.json': JSON.stringify({ projectId: 'proj_2' }) })
  const first = await svc(['config:set', 'token', '-'], { cwd, input: 'deploy-token-number-one\n' })
  t.match(first, { code: 0, stdout: /^projectToken proj_1 = \*\*\*\*-one / })
  await svc(['config:set', 'token', 'deploy-token-number-two', '--env', 'staging'], { cwd })
  const admin = await svc(['config:set', '--global', 'token', 'admin-token-in-full'], { cwd })
  t.match(admin.stdout, /^token = \*\*\*\*full /)
  t.strictSame(read(cwd, '.svc/config.json'), {
    projectToken: { proj_1: 'deploy-token-number-one', 'proj_2:staging': 'deploy-token-number-two' },
    token: 'admin-token-in-full'
  })
  t.strictSame(read(cwd, 'svc.config.json'), { projectId: 'proj_1' })
})

t.test('config:set refuses an ambiguous environment', async t => {
  const file = JSON.stringify({ projectId: 'proj_1' })
  const cwd = t.testdir({ 'svc.config.staging.json': file, 'svc.config.live.json': file })
  t.match(await svc(['config:set', 'outputDir', 'dist'], { cwd }), { code: 2, stderr: /--env \(live, staging\)/ })
})

t.test('config:set keeps unknown keys of the global file', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': JSON.stringify({ adminToken: 'x', later: { a: 1 } }) } })
  await svc(['config:set', 'serverUrl', 'https://deploy.test'], { cwd })
  t.strictSame(read(cwd, '.svc/config.json'), { adminToken: 'x', later: { a: 1 }, serverUrl: 'https://deploy.test' })
})

t.test('config:list prints the global configuration with its tokens masked', async t => {
  const cwd = t.testdir({
    '.svc': {
      'config.json': JSON.stringify({
        serverUrl: 'https://deploy.test',
        adminToken: 'admin-token-in-full-1',
        supervisedToken: 'admin-token-in-full-4',
        token: 'admin-token-in-full-2',
        projectToken: { 'proj_1:staging': 'deploy-token-in-full-3' }
      })
    }
  })
  const { code, stdout, stderr } = await svc(['config:list'], { cwd })
  t.equal(code, 0)
  t.match(stdout, /serverUrl +https:\/\/deploy\.test/)
  t.match(stdout, /projectToken proj_1:staging +\*\*\*\*ll-3/)
  t.match(stderr, /config\.json/)
  t.notMatch(stdout, 'in-full')
  t.strictSame(JSON.parse((await svc(['config:list', '--json'], { cwd })).stdout), {
    serverUrl: 'https://deploy.test',
    adminToken: '****ll-1',
    supervisedToken: '****ll-4',
    token: '****ll-2',
    projectToken: { 'proj_1:staging': '****ll-3' }
  })
})

t.test('config:list reports an empty configuration', async t => {
  t.match(await svc(['config:list'], { cwd: t.testdir({}) }), {
    code: 0,
    stdout: '',
    stderr: /Nothing is configured yet/
  })
})

t.test('config:list refuses a broken file and names it', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': '{"serverUrl": nonsense}' } })
  t.match(await svc(['config:list'], { cwd }), {
    code: 1,
    stdout: '',
    stderr: /Cannot read ".*config\.json": .* in line 1/
  })
})

t.test('version, --version and -v print the version of the package', async t => {
  const { version } = JSON.parse(readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  const cwd = t.testdir({})
  const [command, option] = await Promise.all([svc(['version'], { cwd }), svc(['--version'], { cwd })])
  t.match(command, { code: 0, stdout: `${version}\n`, stderr: '' })
  t.equal(option.stdout, command.stdout)
})

t.test('home prints the data directory', async t => {
  const cwd = t.testdir({})
  t.equal((await svc(['home'], { cwd, env: { SVC_HOME: join(cwd, 'else') } })).stdout, `${join(cwd, 'else')}\n`)
  t.equal((await svc(['home'], { cwd, env: { SVC_HOME: '' } })).stdout, `${join(cwd, '.svc')}\n`, 'below HOME')
  t.match(JSON.parse((await svc(['home', '--json'], { cwd })).stdout), { configFile: join(cwd, '.svc', 'config.json') })
})

const config = (cwd: string) =>
  JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as Record<string, unknown>

t.test('telemetry lists the data that leaves the machine', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': JSON.stringify({ serverUrl: 'https://deploy.test' }) } })
  const status = async (env: Record<string, string> = {}) => (await svc(['telemetry:status'], { cwd, env })).stdout
  const answer = async () => JSON.parse((await svc(['telemetry:status', '--json'], { cwd })).stdout)

  t.match(await status(), /Nothing is sent: no endpoint is configured\./)
  t.match(await answer(), { enabled: true, endpoint: null, source: null, instanceId: null, sends: false })
  t.strictSame(config(cwd), { serverUrl: 'https://deploy.test' }, 'asking changes nothing')

  const set = await svc(['telemetry:endpoint', 'https://me:secret@stats.test/report'], { cwd })
  t.match(set, {
    code: 0,
    stdout: /reported to stats\.test, with only these fields: event, ts, svcVersion, instanceId, os, arch\./
  })
  t.notMatch(set.stdout, 'secret')
  t.equal(config(cwd)['telemetryEndpoint'], 'https://me:secret@stats.test/report')
  t.match(
    await status({ SVC_TELEMETRY_ENDPOINT: 'https://other.test' }),
    /https:\/\/other\.test \(SVC_TELEMETRY_ENDPOINT\)/
  )
  t.match(
    await status({ SVC_TELEMETRY_ENDPOINT: 'other' }),
    /Nothing is sent: the endpoint is not an http or https address/
  )

  t.match((await svc(['telemetry:off'], { cwd })).stdout, /Nothing is sent: telemetry is off\./)
  t.match(await answer(), { enabled: false, sends: false })
  t.match((await svc(['telemetry:on', '--json'], { cwd })).stdout, /"sends": true/)

  for (const word of ['default', 'reset']) {
    await svc(['telemetry:endpoint', 'https://stats.test/report'], { cwd })
    t.match((await svc(['telemetry:endpoint', word], { cwd })).stdout, /no endpoint is configured/)
    t.notOk('telemetryEndpoint' in config(cwd))
  }
  t.match(config(cwd), { serverUrl: 'https://deploy.test', telemetryEnabled: true })
  t.match(await svc(['telemetry:endpoint', 'stats.test'], { cwd }), {
    code: 2,
    stderr: /must be an http or https address/
  })
  t.equal((await svc(['telemetry:endpoint'], { cwd })).code, 2)
})
