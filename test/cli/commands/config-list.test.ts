import t from 'tap'
import { svc } from '../../support/svc.js'

t.test('config:list prints the global configuration with its tokens masked', async t => {
  const cwd = t.testdir({
    '.svc': {
      'config.json': JSON.stringify({
        serverUrl: 'https://deploy.test',
        adminToken: 'admin-token-in-full-1',
        supervisedToken: 'admin-token-in-full-4',
        token: 'admin-token-in-full-2',
        projectToken: { 'proj_1:staging': 'deploy-token-in-full-3' }
      })
    }
  })
  const { code, stdout, stderr } = await svc(['config:list'], { cwd })
  t.equal(code, 0)
  t.match(stdout, /serverUrl +https:\/\/deploy\.test/)
  t.match(stdout, /projectToken proj_1:staging +\*\*\*\*ll-3/)
  t.match(stderr, /config\.json/)
  t.notMatch(stdout, 'in-full')
  t.strictSame(JSON.parse((await svc(['config:list', '--json'], { cwd })).stdout), {
    serverUrl: 'https://deploy.test',
    adminToken: '****ll-1',
    supervisedToken: '****ll-4',
    token: '****ll-2',
    projectToken: { 'proj_1:staging': '****ll-3' }
  })
})

t.test('config:list reports an empty configuration', async t => {
  t.match(await svc(['config:list'], { cwd: t.testdir({}) }), {
    code: 0,
    stdout: '',
    stderr: /Nothing is configured yet/
  })
})

t.test('config:list refuses a broken file and names it', async t => {
  const cwd = t.testdir({ '.svc': { 'config.json': '{"serverUrl": nonsense}' } })
  t.match(await svc(['config:list'], { cwd }), {
    code: 1,
    stdout: '',
    stderr: /Cannot read ".*config\.json": .* in line 1/
  })
})
