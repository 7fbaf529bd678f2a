import t from 'tap'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DriftReport } from '../../../lib/model/plan.js'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('lists the files that were edited on the server', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const target = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath: target })
  const site = join(cwd, 'shop')
  mkdirSync(site)
  for (const name of ['a.txt', 'b.txt', 'c.txt']) writeFileSync(join(site, name), 'x')
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: project.id, serverUrl: server.url }))
  const env = { SVC_DEPLOY_TOKEN: project.token }
  const run = (...words: string[]) => svc(words, { cwd: site, env })

  t.equal((await run('drift')).stdout, 'svc has put no files into the target.\n')
  t.equal((await run('push')).code, 0)
  const clean = await run('drift', '--exit-code')
  t.strictSame([clean.code, clean.stdout], [0, 'No file was edited on the server.\n'])

  writeFileSync(join(target, 'a.txt'), 'by hand')
  rmSync(join(target, 'b.txt'))
  const { code, stdout } = await run('drift')
  t.equal(code, 0)
  t.match(
    stdout,
    /^ {2}! a\.txt {2}edited on the server \d{4}-\d\d-\d\d \d\d:\d\d\n {2}! b\.txt {2}removed on the server\n2 files edited or removed/
  )
  t.equal((await run('drift', '--exit-code', '--full')).code, 4)
  t.match(JSON.parse((await run('drift', project.id, '--json')).stdout) as DriftReport, { count: 2, baseline: 'owned' })

  const plan = await run('plan', '--exit-code')
  t.equal(plan.code, 4)
  t.match(plan.stdout, /^ {2}! a\.txt {2}edited on the server .*, would be overwritten$/m)
  t.match(plan.stdout, /^ {2}! b\.txt {2}removed on the server, would be restored$/m)
  t.match((await run('push')).stdout, /replaced "a\.txt", which was edited on the server after deployment dep_/)

  rmSync(target, { recursive: true })
  writeFileSync(target, 'a file')
  const broken = await run('drift')
  t.strictSame([broken.code, broken.stdout.startsWith('The target cannot be compared: ')], [1, true])
})
