import t from 'tap'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('verify', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const deployPath = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath })
  const config = join(server.home, 'config.json')
  const original = JSON.parse(readFileSync(config, 'utf8'))
  const configure = (keys: object) => writeFileSync(config, JSON.stringify({ ...original, ...keys }))
  const verify = (words: string[] = [], env: Record<string, string> = {}) =>
    svc(['verify', ...words], { cwd, env: { SVC_HOME: server.home, ...env } })

  await t.test('returns 0 if there are only warnings, with advice for each', async t => {
    const { code, stdout } = await verify()
    t.equal(code, 0)
    t.match(stdout, '✔ The projects table exists: 1 project')
    t.match(stdout, /! The deployPath of "shop", .*, does not exist yet\n {2}→ Nothing to do/)
    t.match(stdout, /! The global configuration has no deploy token for "shop"\n {2}→ /)
    t.match(stdout, /! serverUrl is not configured\n {2}→ Run "svc config:set serverUrl/)
    t.match(stdout, /0 errors, 3 warnings\n$/)
  })

  await t.test('returns 0 if everything is correct', async t => {
    await (await server.upload(project, { 'a.txt': 'a' })).finished
    configure({ serverUrl: server.url, projectToken: { [project.id]: project.token } })
    const { code, stdout } = await verify(['--check-server'])
    t.equal(code, 0, stdout)
    t.notMatch(stdout, /^[!✗]/m)
    t.match(stdout, /✔ The server at .* answers \(\d+\)\nNo problems found\n$/)
  })

  await t.test('returns 1 if the token differs from the database', async t => {
    configure({ serverUrl: server.url, projectToken: { [project.id]: 'another' } })
    const { code, stdout } = await verify(['--json'])
    t.equal(code, 1)
    t.match(JSON.parse(stdout), { ok: false })
    t.match(
      JSON.parse(stdout).findings.filter(({ level }: { level: string }) => level === 'error'),
      [{ check: 'token', id: project.id, next: String }]
    )
    t.notMatch(stdout, project.token)
  })

  await t.test('returns 1 if a target is missing or not a directory', async t => {
    configure({ serverUrl: server.url })
    rmSync(deployPath, { recursive: true })
    t.match(await verify(), { code: 1, stdout: /✗ The deployPath of "shop", .*, does not exist\n {2}→ Deploy again/ })
    writeFileSync(deployPath, 'a file')
    t.match(await verify(), { code: 1, stdout: /✗ The deployPath of "shop", .*, is not a directory\n {2}→ / })
    rmSync(deployPath)
  })

  await t.test('--check-server reports 5xx and an unreachable server as errors, but not 4xx', async t => {
    let status = 503
    const other = createServer((_, response) => response.writeHead(status).end()).listen(0, '127.0.0.1')
    await once(other, 'listening')
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const env = { SVC_SERVER_URL: url }
    t.match(await verify(['--check-server'], env), {
      code: 1,
      stdout: /✗ The server at .* answers 503[^]*\n2 errors, 1 warning\n$/
    })
    status = 404
    t.match(await verify(['--check-server'], env), { stdout: /✔ The server at .* answers \(404\)/ })
    other.close()
    await once(other, 'close')
    t.match(await verify(['--check-server'], env), {
      code: 1,
      stdout: /✗ Cannot reach the server: connection refused by /
    })
  })

  await t.test('without a server, the database is opened and closed again', async t => {
    await server.stop()
    t.match(await verify(), { code: 1, stdout: /The projects table exists: 1 project/ })
    t.notOk(existsSync(join(server.home, 'svc.sock')))
  })

  await t.test('returns 1 without a database and creates none', async t => {
    const { code, stdout } = await verify([], { SVC_HOME: join(cwd, 'nowhere') })
    t.equal(code, 1)
    t.match(stdout, /✗ No database in .*\n {2}→ Start the server once with "svc serve"/)
    t.notOk(existsSync(join(cwd, 'nowhere')))
  })
})
