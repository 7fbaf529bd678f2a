import t from 'tap'
import { svc } from '../../support/svc.js'

const files = {
  'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: 'https://project.test', env: { MODE: 'live' } }),
  'svc.config.staging.json': JSON.stringify({ projectId: 'proj_2' }),
  '.env.local': 'SVC_DEPLOY_TOKEN=a-deploy-token-in-full-1\n',
  '.svc': { 'config.json': JSON.stringify({ serverUrl: 'https://global.test', token: 'admin-token-in-full-2' }) }
}

t.test('config:get prints the effective value of a key, and nothing else', async t => {
  const cwd = t.testdir(files)
  const cases: Array<[key: string, value: string]> = [
    ['serverUrl', 'https://project.test'],
    ['projectId', 'proj_1'],
    ['outputDir', './'],
    ['postDeployAsync', 'false'],
    ['env.MODE', 'live'],
    ['deployToken', '****ll-1'],
    ['adminToken', '****ll-2'],
    ['token', '****ll-1']
  ]
  for (const [key, value] of cases)
    t.match(await svc(['config:get', key], { cwd }), { code: 0, stdout: `${value}\n` }, key)
  t.equal((await svc(['config:get', 'projectId', '--env', 'staging'], { cwd })).stdout, 'proj_2\n')
  const { stdout } = await svc(['config:get', 'serverUrl', '--json'], { cwd })
  t.match(JSON.parse(stdout), { key: 'serverUrl', value: 'https://project.test', source: 'project' })
})

t.test('config:get fails for a key without a value, and for an unknown one', async t => {
  const cwd = t.testdir({})
  t.match(await svc(['config:get', 'projectId'], { cwd }), {
    code: 1,
    stdout: '',
    stderr: /"projectId" has no value here/
  })
  t.match(await svc(['config:get', 'serverURL'], { cwd }), {
    code: 2,
    stdout: '',
    stderr: /Unknown key "serverURL": did you mean "serverUrl"/
  })
})
