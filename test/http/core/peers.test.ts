import t from 'tap'
import { createPeers } from '../../../lib/http/core/peers.js'

const viaProxy = { 'x-forwarded-for': '198.51.100.7' }

t.test('caches the result for a peer until the list of proxies changes', async t => {
  let trusted = ['192.0.2.0/24']
  const peers = createPeers(() => trusted)
  const direct = peers('192.0.2.1', {})
  t.match(direct, { address: '192.0.2.1' })
  t.equal(peers('192.0.2.1', {}), direct)
  t.not(peers('192.0.2.2', {}), direct)
  t.match(peers('192.0.2.1', viaProxy), { address: '198.51.100.7', viaProxy: true })
  t.match(peers('192.0.2.1', { 'x-real-ip': '198.51.100.8' }), { viaProxy: true })
  t.equal(peers('192.0.2.1', {}), direct, 'proxy headers apply to one request only')
  trusted = []
  t.not(peers('192.0.2.1', {}), direct)
  t.match(peers('192.0.2.1', viaProxy), { address: '192.0.2.1', viaProxy: false })
  trusted = ['no network', '192.0.2.1']
  t.match(peers('192.0.2.1', viaProxy), { address: '198.51.100.7' })
})
