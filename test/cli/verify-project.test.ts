import t from 'tap'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findProgram } from '../support/programs.js'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'

t.test('verifies the files of a project on the server', async t => {
  const cwd = t.testdir({ tmp: {} })
  const server = await startServeProcess(t, cwd)
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
