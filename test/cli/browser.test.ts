import t from 'tap'
import { openBrowser, openerFor } from '../../lib/cli/browser.js'

t.test('openerFor returns the program of the platform, or null without a screen', async t => {
  const address = 'https://deploy.test/?a=1&b=2'
  t.match(openerFor(address, 'darwin', {}), { program: 'open', words: [address] })
  t.match(openerFor(address, 'win32', {}), { words: ['url.dll,FileProtocolHandler', address] })
  t.match(openerFor(address, 'linux', { WAYLAND_DISPLAY: 'wayland-0' }), { program: 'xdg-open', words: [address] })
  t.equal(openerFor(address, 'linux', {}), null)
})

t.test('openBrowser refuses if no browser can be opened', async t => {
  t.equal(await openBrowser('https://deploy.test', process.platform === 'linux' ? {} : { PATH: '/nowhere' }), false)
})
