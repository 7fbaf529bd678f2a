import t from 'tap'
import { maySwitchUser } from '../../lib/core/proc/identity.js'
import { startServer } from '../support/server.js'

t.test('a start as root names the projects that have no user of their own', async t => {
  const stage = await startServer(t)
  const about = () => stage.told.warn.filter(line => /no user of their own/.test(line))
  t.same(about(), [], 'not without projects')
  await stage.createProject('shop')
  await stage.restart()
  const { body } = await stage.client.get('/api/settings/status')
  t.equal(body.switchesUsers, maySwitchUser())
  if (maySwitchUser()) t.match(about(), [/: "shop"\. Set one with "svc projects set/])
  else t.same(about(), [], 'another user than root cannot give projects users')
})
