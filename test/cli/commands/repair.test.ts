import t from 'tap'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('puts back the files that are not as deployed', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  await server.changeProject(project.id, { postDeployScript: 'date >> ../ran' })
  const site = join(cwd, 'shop')
  mkdirSync(site)
  for (const name of ['a.txt', 'b.txt', 'c.txt']) writeFileSync(join(site, name), name)
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: project.id, serverUrl: server.url }))
  const env = { SVC_TOKEN: server.adminToken, SVC_DEPLOY_TOKEN: project.token }
  const run = (...words: string[]) => svc(words, { cwd: site, env })
  const size = () => statSync(join(cwd, 'ran')).size
  t.equal((await run('push')).code, 0)
  const once = size()
  t.match(await run('repair', '--yes'), { code: 0, stdout: 'Every file is as deployed.\n' })

  const damage = () => {
    writeFileSync(join(target, 'a.txt'), 'by hand')
    for (const name of ['b.txt', 'c.txt']) rmSync(join(target, name), { force: true })
  }
  damage()
  t.match(await run('repair'), { code: 1, stderr: /use --yes/ })
  const some = await run('repair', project.id, '--path', 'b.txt', '--path', 'c.txt', '--yes')
  t.equal(some.code, 0, some.stderr)
  t.match(some.stdout, '→ puts back 2 files')
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'by hand')
  t.equal(readFileSync(join(target, 'c.txt'), 'utf8'), 'c.txt')
  const rest = await run('repair', '--yes', '--json', '-m', 'after the incident')
  t.equal(rest.code, 0, rest.stderr)
  t.match(JSON.parse(rest.stdout), { status: 'success', projectId: project.id })
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'a.txt')
  t.equal((await run('verify', project.id)).code, 0)
  t.equal(size(), once, 'no script ran')
  damage()
  t.equal((await run('repair', '--run-scripts', '--yes')).code, 0)
  t.ok(size() > once)

  const other = await run('repair', '--path', 'other.txt', '--yes')
  t.match(other, { code: 1, stderr: /"other\.txt" in "paths" is not a file that svc put there/ })
  const json = await run('repair', '--yes', '--json')
  t.match(JSON.parse(json.stdout), { status: 'nothing_to_repair' })
})
