import t from 'tap'
import { svc } from '../../support/svc.js'

const token = 'a-deploy-token-of-some-length'

t.test('config shows each value, its source, and the last four characters of tokens', async t => {
  const cwd = t.testdir({
    'svc.config.json': JSON.stringify({ projectId: 'proj_1', serverUrl: 'https://project.test', outputDir: 'dist' }),
    '.env.local': `SVC_DEPLOY_TOKEN=${token}\n`,
    '.svc': {
      'config.json': JSON.stringify({ serverUrl: 'https://global.test', token: 'an-admin-token-of-some-length' })
    }
  })
  const { code, stdout } = await svc(['config'], { cwd, env: { SVC_SERVER_URL: 'https://variable.test/a/' } })
  t.equal(code, 0)
  t.match(stdout, /serverUrl +https:\/\/variable\.test\/a +environment +SVC_SERVER_URL/)
  t.match(stdout, /projectId +proj_1 +project +.*svc\.config\.json/)
  t.match(stdout, /deployToken +\*\*\*\*ngth +\.env\.local/)
  t.match(stdout, /adminToken +\*\*\*\*ngth +global/)
  t.match(stdout, /postDeployAsync +false +default/)
  t.notMatch(stdout, token)

  const json = await svc(['config', '--json'], { cwd })
  const rows = JSON.parse(json.stdout) as Array<{ key: string; value: string; source: string }>
  t.match(
    rows.find(row => row.key === 'serverUrl'),
    { value: 'https://project.test', source: 'project' }
  )
  t.notMatch(json.stdout, token)
})

t.test('config --env reads the file of that environment', async t => {
  const cwd = t.testdir({
    'svc.config.json': JSON.stringify({ projectId: 'proj_1' }),
    'svc.config.staging.json': JSON.stringify({ projectId: 'proj_2' })
  })
  t.match((await svc(['config', '--env', 'staging'], { cwd })).stdout, /projectId +proj_2/)
  t.match(await svc(['config', '--env', 'nowhere'], { cwd }), {
    code: 1,
    stderr: /Cannot find svc\.config\.nowhere\.json/
  })
})

t.test('warns of an unknown key', async t => {
  const cwd = t.testdir({ 'svc.config.json': JSON.stringify({ projectId: 'proj_1', outDir: 'dist' }) })
  t.match((await svc(['config'], { cwd })).stderr, /warning: .*unknown key "outDir"/)
})
