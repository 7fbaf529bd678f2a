import t from 'tap'
import { inheritedEnvironment, serverEnvironment } from '../../../lib/core/proc/environment.js'

t.test('inherits everything except the secrets and configuration of the server', async t => {
  t.same(
    inheritedEnvironment({
      PATH: '/bin',
      ADMIN_TOKEN: 'a',
      SVC_TOKEN: 'b',
      NODE_CHANNEL_FD: '3',
      MY_ADMIN_TOKEN: 'c',
      HOME: undefined
    }),
    {
      PATH: '/bin',
      MY_ADMIN_TOKEN: 'c',
      HOME: undefined
    }
  )
})

t.test('does not inherit the variables of systemd for the service', async t => {
  const told = {
    NOTIFY_SOCKET: '/run/systemd/notify',
    WATCHDOG_USEC: '1',
    LISTEN_FDS: '1',
    JOURNAL_STREAM: '8:1',
    INVOCATION_ID: 'x',
    CREDENTIALS_DIRECTORY: '/c',
    STATE_DIRECTORY: '/s'
  }
  t.same(inheritedEnvironment(told), {})
})

t.test('another svc server inherits the configuration, but no token', async t => {
  const given = {
    PATH: '/bin',
    SVC_HOME: '/h',
    SVC_PUBLIC_URL: 'https://x',
    SVC_TOKEN: 'a',
    SVC_DEPLOY_TOKEN: 'b',
    ADMIN_TOKEN: 'c',
    NOTIFY_SOCKET: '/n'
  }
  t.same(serverEnvironment(given), { PATH: '/bin', SVC_HOME: '/h', SVC_PUBLIC_URL: 'https://x' })
})
