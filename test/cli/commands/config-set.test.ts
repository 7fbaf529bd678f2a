import t from 'tap'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { svc } from '../../support/svc.js'

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
