import t from 'tap'
import { acceptClientEnv, linesOfDropped, scriptEnvironment } from '../../../lib/deploy/scripts/environment.js'
import { deploySays } from '../../support/sentences/deploy.js'

const facts = {
  project: { id: 'proj_1', name: 'Shop', deployPath: '/srv/shop', env: 'staging' },
  deployId: 'dep_2',
  rollbackOf: null,
  previousDeployId: 'dep_1'
}

t.test('refuses client variables that make programs run other code', async t => {
  const denied = [
    'PATH',
    'LD_PRELOAD',
    'LD_LIBRARY_PATH',
    'DYLD_INSERT_LIBRARIES',
    'NODE_OPTIONS',
    'BASH_ENV',
    'ENV',
    'IFS',
    'SHELLOPTS',
    'PYTHONPATH',
    'SVC_DEPLOY_ID',
    'SVC_',
    'BASH_FUNC_ls%%',
    'PS4',
    'PERL5OPT',
    '',
    'A=B',
    'A\0'
  ]
  for (const allowed of [null, ['*', ...denied, 'P*', 'L*', 'S*']]) {
    const { accepted, dropped } = acceptClientEnv(Object.fromEntries(denied.map(name => [name, 'x'])), allowed)
    t.strictSame(dropped.map(({ name }) => name).sort(), denied.sort())
    t.strictSame(accepted, {})
  }
})

t.test('passes all other variables unchanged if client scripts are allowed', async t => {
  const sent = {
    NODE_ENV: 'production',
    env: 'x',
    LDFLAGS: '-s',
    API: 'a=b\nc',
    EMPTY: '',
    MY_SVC_NAME: 'y',
    __proto: 'z'
  }
  t.strictSame(acceptClientEnv(sent, null), { accepted: sent, dropped: [] })
  t.match(acceptClientEnv({ NUL: 'a\0b' }, null).dropped, [{ name: 'NUL' }])
})

t.test('the output names dropped variables by reason, without values', async t => {
  const sent = { PATH: 'secret-1', LD_PRELOAD: 'secret-2', 'GIT_SSH\n✓ success': 'secret-3', APP: 'a' }
  const lines = linesOfDropped(acceptClientEnv(sent, ['APP']).dropped)
  t.strictSame(lines, [
    deploySays.variablesNeverSet('PATH', 'LD_PRELOAD'),
    deploySays.variablesNotAllowed('GIT_SSH\n✓ success')
  ])
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`V${index}`, '']))
  t.match(linesOfDropped(acceptClientEnv(many, []).dropped), [/"V49", and 10 more \(/])
})

t.test('a script gets the server environment without secrets, the client variables and SVC_*', async t => {
  const inherited = {
    PATH: '/bin',
    HOME: '/root',
    ADMIN_TOKEN: 's',
    SVC_HOME: '/h',
    SVC_TOKEN: 't',
    SVC_DEPLOY_TOKEN: 'u',
    NODE_CHANNEL_FD: '3'
  }
  t.strictSame(
    scriptEnvironment({ inherited, accepted: { NODE_ENV: 'production', HOME: '/x' }, facts, rights: null }),
    {
      PATH: '/bin',
      HOME: '/x',
      NODE_ENV: 'production',
      SVC_PROJECT_ID: 'proj_1',
      SVC_PROJECT_NAME: 'Shop',
      SVC_DEPLOY_ID: 'dep_2',
      SVC_DEPLOY_PATH: '/srv/shop',
      SVC_ENV: 'staging',
      SVC_DEPLOY_MODE: 'deploy',
      SVC_ROLLBACK_OF: '',
      SVC_PREVIOUS_DEPLOY_ID: 'dep_1',
      SVC_CHANGES: '',
      SVC_FAILURE: '',
      SVC_FAILURE_REASON: ''
    }
  )
  const rollback = scriptEnvironment({
    inherited: {},
    accepted: {},
    facts: { ...facts, rollbackOf: 'dep_0', previousDeployId: null },
    rights: null
  })
  t.match(rollback, { SVC_DEPLOY_MODE: 'rollback', SVC_ROLLBACK_OF: 'dep_0', SVC_PREVIOUS_DEPLOY_ID: '' })
})
