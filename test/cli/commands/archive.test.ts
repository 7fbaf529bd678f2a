import t from 'tap'
import { join } from 'node:path'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('archive delete removes the archive of one deployment', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const ids: string[] = []
  for (const text of ['one', 'two', 'three']) {
    const { deployId, finished } = await server.upload(project, { 'index.html': text })
    await finished
    ids.push(deployId)
  }
  const [first = '', second = '', third = ''] = ids
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const run = (...words: string[]) => svc(['archive', 'delete', ...words], { cwd, env })

  t.match(await run(first), { code: 1, stderr: /use --yes/ })
  t.match(await run(third, '--yes', '--force'), { code: 1, stderr: /its files are in the target/ })
  t.match(await run(second, '--yes'), { code: 1, stderr: /an exact undo of deployment/ })
  t.match(await run(second, '--yes', '--force'), { code: 0, stdout: `Deleted the archive of ${second}` })
  const { code, stdout } = await run(first, '--yes', '--force', '--json')
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { freedBytes: Number, deployment: { id: first, artifactPath: null, hasArtifact: false } })
  t.match(await svc(['rollback', '--to', first, '--yes'], { cwd, env: { ...env, SVC_PROJECT_ID: project.id } }), {
    code: 1,
    stderr: /its archive has been removed/
  })
})
