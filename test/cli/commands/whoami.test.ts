import t from 'tap'
import { adminToken, startServer } from '../../support/server.js'
import { svc } from '../../support/svc.js'

t.test('each token is checked, and one valid token is enough', async t => {
  const { url, createProject } = await startServer(t)
  const project = await createProject('shop')
  const ask = (env: Record<string, string>) =>
    svc(['whoami', '--json'], { cwd: t.testdir({}), env: { SVC_SERVER_URL: url, ...env } })

  const both = await ask({ SVC_TOKEN: 'a-wrong-token-0123456789', SVC_DEPLOY_TOKEN: project.token })
  t.equal(both.code, 0, both.stderr)
  const { server, tokens } = JSON.parse(both.stdout) as { server: string; tokens: object[] }
  t.equal(server, url)
  t.match(tokens, [
    { kind: 'admin', from: /SVC_TOKEN/, role: null, problem: String },
    { kind: 'deploy', role: 'project', project: { id: project.id, name: 'shop' }, problem: null }
  ])
  t.notMatch(both.stdout, project.token)

  const admin = await ask({ SVC_TOKEN: adminToken })
  t.match(JSON.parse(admin.stdout), { tokens: [{ kind: 'admin', role: 'admin', project: null, problem: null }] })
  t.match(await ask({ SVC_TOKEN: 'a-wrong-token-0123456789' }), { code: 1 }, 'no valid token')
  t.match(await ask({}), { code: 1 }, 'no token at all')
})
