import { isLoopback } from '../core/client-address.js'
import { Refusal } from '../../base/refusal.js'

/** Whether requests to this URL leave the machine unencrypted. */
export function isOpenUrl(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' && hostname !== 'localhost' && !isLoopback(hostname.replace(/^\[|\]$/g, ''))
}

/** Returns the URL of a hub. Refuses `hub_not_encrypted`, before anything is sent. */
export function openHubUrl(url: string, allowsHttp: boolean): URL {
  if (!allowsHttp && isOpenUrl(url)) throw notEncrypted(url)
  return new URL(url)
}

function notEncrypted(url: string): Refusal {
  const sentence = `Nothing was sent to the hub "${url}": the connection would not be encrypted. Let it serve https (--tls-cert, --tls-key, --hub-url), or allow it on a private network with --allow-http`
  return new Refusal('unavailable', 'hub_not_encrypted', sentence)
}
