import t from 'tap'
import { inheritedEnvironment, serverEnvironment, keepBack, withoutKept } from '../../../lib/core/proc/environment.js'

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

const hidden = (): number[] =>
  withoutKept(['pipe', 'pipe'], stdio => stdio.flatMap((each, fd) => (typeof each === 'number' ? [fd] : [])))

t.test('withholds a descriptor until its holder releases it', async t => {
  const letGo = keepBack(40)
  const other = keepBack(42)
  t.strictSame(hidden(), [40, 42])
  letGo()
  t.strictSame(hidden(), [42])
  letGo()
  other()
  t.strictSame(hidden(), [])
})

t.test('keeps withholding a reused number if its former holder releases it late', async t => {
  const former = keepBack(40)
  const now = keepBack(40)
  former()
  t.strictSame(hidden(), [40])
  now()
  t.strictSame(hidden(), [])
})

t.test('never replaces the standard streams', async t => {
  const letGo = keepBack(1)
  t.strictSame(
    withoutKept(['pipe', 'pipe'], stdio => stdio),
    ['pipe', 'pipe']
  )
  letGo()
})
