import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('lists the audit log with filters', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  t.match(await svc(['audit', 'list'], admin), { code: 0, stdout: '', stderr: /No entries/ })
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  await server.api('PUT', `/api/projects/${shop.id}`, { description: 'A shop' })
  const { code, stdout } = await svc(['audit', 'list'], admin)
  t.equal(code, 0)
  t.match(stdout, /^NUMBER +TIME +ACTOR +ADDRESS +ACTION +TARGET +DETAIL$/m)
  t.match(
    stdout,
    new RegExp(`^2 +20.*Z +admin +127\\.0\\.0\\.1 +project\\.update +${shop.id} +description *\n1 +`, 'm')
  )
  const listed = async (...words: string[]) =>
    (JSON.parse((await svc(['audit', 'list', '--json', ...words], admin)).stdout) as Array<{ seq: number }>).map(
      ({ seq }) => seq
    )
  t.same(await listed(), [2, 1])
  t.same(await listed('--limit', '1'), [2])
  t.same(await listed('--action', 'project.create', '--project', shop.id), [1])
  t.same(await listed('--by', 'ci-shop'), [])
})
