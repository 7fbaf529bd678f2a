import t from 'tap'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { findProgram } from '../../support/programs.js'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { urlOf } from '../../support/on-loopback.js'

t.test('verify', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
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

  await t.test('reads the archives if it is asked to', async t => {
    const { code, stdout } = await verify(['--archives'])
    t.equal(code, 0, stdout)
    t.match(stdout, '✔ The archives are intact: 1 archive')
    t.match(await verify(['--archives', project.id]), { code: 2, stderr: /--archives cannot be combined/ })
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
    t.match(await verify(), {
      code: 1,
      stdout: /✗ The deployPath of "shop", .*, does not exist\n {2}→ Deploy again .*svc files proj_\w+ --repair/
    })
    writeFileSync(deployPath, 'a file')
    t.match(await verify(), { code: 1, stdout: /✗ The deployPath of "shop", .*, is not a directory\n {2}→ / })
    rmSync(deployPath)
  })

  await t.test('--check-server reports 5xx and an unreachable server as errors, but not 4xx', async t => {
    let status = 503
    const other = createServer((_, response) => response.writeHead(status).end())
    const env = { SVC_SERVER_URL: await urlOf(t, other) }
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

t.test('verifies the files of a project on the server', async t => {
  const cwd = t.testdir({ tmp: {} })
  const server = await startServe(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  const site = join(cwd, 'shop')
  mkdirSync(site)
  for (const name of ['a.txt', 'b.txt', 'c d.txt', 'e.txt']) writeFileSync(join(site, name), name)
  symlinkSync('a.txt', join(site, 'link'))
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: project.id, serverUrl: server.url }))
  const env = { SVC_DEPLOY_TOKEN: project.token, TMPDIR: join(cwd, 'tmp'), SVC_HOME: server.home }
  const run = (...words: string[]) => svc(words, { cwd: site, env })
  const verify = (...words: string[]) => run('verify', project.id, ...words)

  const nothing = await verify()
  t.strictSame([nothing.code, nothing.stdout], [0, 'svc has put no files into the target.\n'])
  t.equal((await run('push')).code, 0)
  const clean = await verify()
  t.strictSame([clean.code, clean.stdout], [0, '5 files are as deployed.\n'], clean.stderr)
  t.match(clean.stderr, /^Verifying…\nVerified 5 files in /)

  const sums = await verify('--sums')
  t.equal(sums.code, 0)
  t.match(sums.stdout, /^[0-9a-f]{64} {2}a\.txt\n/)
  t.notMatch(sums.stdout, 'link')
  const check = () => spawnSync('sha256sum', ['-c', '--strict'], { cwd: target, input: sums.stdout }).status
  const hasProgram = findProgram('sha256sum') !== null
  if (hasProgram) t.equal(check(), 0)

  writeFileSync(join(target, 'a.txt'), 'hands')
  chmodSync(join(target, 'b.txt'), 0o600)
  rmSync(join(target, 'c d.txt'))
  rmSync(join(target, 'link'))
  mkdirSync(join(target, 'link'))
  if (hasProgram) t.equal(check(), 1)
  const { code, stdout } = await verify()
  t.equal(code, 1)
  const lines = stdout.trimEnd().split('\n')
  t.match(lines, [
    /^ {2}! a\.txt {2}other contents \(from dep_[a-z0-9]+\)$/,
    /^ {2}! b\.txt {2}other permissions/,
    /^ {2}! c d\.txt {2}missing/,
    /^ {2}! link {2}not of the same type/,
    /^4 of 5 files differ: 1 with other contents, 1 missing, 1 of another type, 1 with other permissions\.$/
  ])
  const json = await verify('--json')
  t.equal(json.code, 1)
  t.match(JSON.parse(json.stdout), {
    success: true,
    baseline: 'owned',
    files: 5,
    ok: 1,
    findings: [{ path: 'a.txt', state: 'changed' }, { path: 'b.txt' }, { path: 'c d.txt' }, { path: 'link' }]
  })
  t.equal((await verify('--sums')).code, 1, 'the list is that of the deployment')
  for (const words of [['--sums', '--json'], ['--check-server']]) t.equal((await verify(...words)).code, 2)
  for (const words of [['--sums'], ['--server', server.url]]) t.equal((await run('verify', ...words)).code, 2)
  t.equal((await run('verify', 'proj_other')).code, 1)

  const fetched = await run('drift', '--fetch', 'edited')
  t.equal(fetched.code, 0, fetched.stderr)
  t.match(fetched.stderr, /1 file downloaded to .*edited/)
  t.equal(readFileSync(join(site, 'edited/a.txt'), 'utf8'), 'hands')
  const again = await run('drift', '--fetch', 'edited')
  t.equal(again.code, 1)
  t.match(again.stderr, '"a.txt" was not downloaded: It exists already')
})
