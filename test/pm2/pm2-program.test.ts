import { chmodSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { commonPlaces, findPm2, pm2Environment } from '../../lib/pm2/pm2-program.js'

t.test('searches pm2 on PATH, then in common directories', async t => {
  const root = t.testdir({ path: { pm2: '' }, place: { pm2: '' }, folder: { pm2: {} }, plain: { pm2: '' } })
  for (const name of ['path', 'place']) chmodSync(join(root, name, 'pm2'), 0o755)
  chmodSync(join(root, 'plain/pm2'), 0o644)
  const find = (path: string[], places: string[]) =>
    findPm2(
      { PATH: path.map(name => join(root, name)).join(delimiter) },
      places.map(name => join(root, name))
    )
  t.equal(await find(['path'], ['place']), join(root, 'path/pm2'))
  t.equal(await find(['nowhere'], ['place']), join(root, 'place/pm2'))
  t.equal(
    await find(['folder', 'plain'], ['place']),
    join(root, 'place/pm2'),
    'neither a directory nor a file that cannot be run'
  )
  t.equal(await find([], []), null)
})

t.test('the common directories are those of npm, pnpm and others', async t => {
  const places = commonPlaces({ HOME: '/home/x', NPM_CONFIG_PREFIX: '/opt/npm', NVM_BIN: '/nvm/bin' })
  for (const place of ['/usr/local/bin', '/opt/homebrew/bin', '/home/x/.npm-global/bin', '/opt/npm/bin', '/nvm/bin']) {
    t.ok(places.includes(place), place)
  }
})

t.test('pm2 gets no secret of the server, and a PATH with Node', async t => {
  const environment = pm2Environment({ PATH: '/bin', ADMIN_TOKEN: 'x', SVC_TOKEN: 'y', PM2_HOME: '/pm2' })
  t.match(environment, { PM2_HOME: '/pm2', PATH: /^\/bin.+/ })
  t.notOk('ADMIN_TOKEN' in environment || 'SVC_TOKEN' in environment)
})
