import t from 'tap'
import { inheritedEnvironment } from '../../lib/proc/environment.js'

t.test('all but the secrets of the server, and its own affairs', async t => {
  t.same(inheritedEnvironment({ PATH: '/bin', ADMIN_TOKEN: 'a', SVC_TOKEN: 'b', NODE_CHANNEL_FD: '3', MY_ADMIN_TOKEN: 'c', HOME: undefined }), {
    PATH: '/bin', MY_ADMIN_TOKEN: 'c', HOME: undefined
  })
})
