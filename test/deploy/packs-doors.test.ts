import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createRandom } from '../support/random.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'

// Every place where an archive leaves the server, or comes back, for archives that share contents.

const random = createRandom(11)
const text = (): string => Array.from({ length: 700 }, () => random.below(2 ** 31).toString(36)).join(' ')

/** A server with pushes of one project, made by the command. */
async function stagePushes(t: Test, pushes = 4) {
  const cwd = t.testdir()
  const serving = await startServe(t, cwd)
  const project = await serving.createProject({ name: 'shop', deployPath: join(cwd, 'target') })
  const site = join(cwd, 'site')
  mkdirSync(site)
  for (let n = 0; n < 80; n++) writeFileSync(join(site, `f${n}.js`), text())
  const env = {
    SVC_HOME: join(cwd, 'client'),
    SVC_SERVER_URL: serving.url,
    SVC_PROJECT_ID: project.id,
    SVC_DEPLOY_TOKEN: project.token
  }
  const push = async (...words: string[]): Promise<void> => {
    const { code, stdout, stderr } = await svc(['push', '--project', project.id, '--out', site, ...words], { cwd, env })
    t.equal(code, 0, stdout + stderr)
  }
  let changed = 0
  const change = (): void => writeFileSync(join(site, `f${changed++}.js`), text())
  await push()
  for (let n = 1; n < pushes; n++) {
    change()
    await push('--incremental', 'require')
  }
  const rows = (await serving.deployments(project.id)).reverse()
  t.equal(rows.length, pushes)
  return { cwd, serving, project, rows, push, change }
}

const namesIn = (home: string): string[] =>
  readdirSync(join(home, 'deployments')).filter(name => /\.(zip|index|pack)$/.test(name))

t.test('a backup contains packs once, and a restored server rolls back to each release', async t => {
  const { cwd, serving, project, rows } = await stagePushes(t)
  t.equal(namesIn(serving.home).filter(name => name.endsWith('.index')).length, 3)
  const backup = join(cwd, 'backup.zip')
  const env = { SVC_HOME: serving.home }
  t.match(await svc(['backup', backup], { cwd, env }), { code: 0 })
  await serving.stop()
  const bytes = execFileSync('unzip', ['-l', backup]).toString()
  for (const name of namesIn(serving.home)) t.equal(bytes.split(`/${name}`).length, 2, `${name} once`)

  const other = join(cwd, 'other')
  mkdirSync(other)
  const restored = await svc(['restore', backup], { cwd: other, env: { SVC_HOME: join(other, 'server-home') } })
  t.equal(restored.code, 0, restored.stdout + restored.stderr)
  const again = await startServe(t, other)
  for (const { id, treeSha256 } of rows) {
    await again.api('POST', `/api/deployments/${id}/rollback`)
    t.match((await again.deployments(project.id))[0], { status: 'success', treeSha256, rollbackOf: id }, id)
  }
  t.equal((await again.deployments(project.id)).length, rows.length * 2)
})

t.test('an export contains the whole archive as its record says, and is imported', async t => {
  const { cwd, serving, project, rows } = await stagePushes(t)
  const path = join(cwd, 'export.zip')
  const exported = await svc(['export', '--out', path], { cwd, env: { SVC_HOME: serving.home } })
  t.equal(exported.code, 0, exported.stdout + exported.stderr)
  const inside = execFileSync('unzip', ['-p', path, `*artifacts/${project.id}.zip`], { maxBuffer: 1e9 })
  const live = rows.at(-1)
  t.equal(createHash('sha256').update(inside).digest('hex'), live?.archiveSha256)
  t.equal(inside.length, live?.archiveBytes)
  writeFileSync(join(cwd, 'whole.zip'), inside)
  execFileSync(
    'python3',
    ['-c', 'import sys, zipfile; assert zipfile.ZipFile(sys.argv[1]).testzip() is None', 'whole.zip'],
    {
      cwd
    }
  )
  await serving.stop()

  const other = join(cwd, 'other')
  mkdirSync(other)
  const fresh = await startServe(t, other)
  const imported = await svc(['import', path, '--yes'], { cwd, env: { SVC_HOME: fresh.home } })
  t.equal(imported.code, 0, imported.stdout + imported.stderr)
  await fresh.api('POST', `/api/deployments/${live?.id}/rollback`)
  t.match((await fresh.deployments(project.id))[0], { status: 'success', treeSha256: live?.treeSha256 })
})

t.test('an import replaces archives that others share contents with', async t => {
  const { cwd, serving, project, rows, push, change } = await stagePushes(t, 1)
  const env = { SVC_HOME: serving.home }
  const packages = ['whole.zip', 'shared.zip']
  for (const path of packages) {
    t.match(
      await svc(['export', '--out', path], { cwd, env }),
      { code: 0 },
      'the first is a whole archive, the second an index'
    )
    change()
    await push('--incremental', 'require')
  }
  await serving.stop()
  for (const path of packages) {
    const imported = await svc(['import', path, '--strategy', 'overwrite', '--yes'], { cwd, env })
    t.equal(imported.code, 0, imported.stdout + imported.stderr)
  }
  t.match((await svc(['verify', '--archives'], { cwd, env })).stdout, /The archives are intact: 3 archives/)
  const whole = namesIn(serving.home).filter(name => name.endsWith('.zip'))
  t.equal(whole.length, 2)
  for (const name of whole) t.notOk(namesIn(serving.home).includes(name.replace('.zip', '.index')), 'one of both')
  const again = await startServe(t, cwd)
  const all = await again.deployments(project.id)
  t.equal(all.length, rows.length + 2)
  for (const { id, treeSha256 } of all) {
    await again.api('POST', `/api/deployments/${id}/rollback`)
    t.match((await again.deployments(project.id))[0], { status: 'success', treeSha256, rollbackOf: id }, id)
  }
})

t.test('the storage page counts each file once, and cleaning leaves what others need', async t => {
  const { serving, project, rows } = await stagePushes(t)
  const sizes = namesIn(serving.home).map(name => readFileSync(join(serving.home, 'deployments', name)).length)
  type Usage = {
    storage: { totals: { archives: number }; projects: object[] }
  }
  const usage = await serving.api<Usage & Usage['storage']>('GET', '/api/storage')
  const { totals, projects } = usage.storage ?? usage
  const sum = sizes.reduce((all, bytes) => all + bytes, 0)
  t.equal(totals.archives, sum)
  const whole = rows.reduce((all, { archiveBytes }) => all + (archiveBytes ?? 0), 0)
  t.match(projects, [{ archiveCount: 4, archiveBytes: sum, wholeArchiveBytes: whole }])
  t.ok(whole > 2 * sum)
  await serving.api('POST', '/api/storage/clean', { keepArchives: 1 }).catch(() => {})
  await serving.api('PUT', '/api/settings', { keep_archives: '1', keep_undo: '0' })
  await serving.api('POST', '/api/storage/clean', {})
  t.strictSame(
    namesIn(serving.home).filter(name => /\.(zip|index)$/.test(name)),
    [`${rows.at(-1)?.id}.index`]
  )
  await serving.api('POST', `/api/deployments/${rows.at(-1)?.id}/rollback`)
  t.match((await serving.deployments(project.id))[0], { status: 'success', treeSha256: rows.at(-1)?.treeSha256 })
})
