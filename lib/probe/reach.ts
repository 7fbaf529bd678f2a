/*
 * Where probes may connect to: the machine itself, and what the setting `gate_hosts` names. A check of a deployment is
 * not a port scanner. The address that was checked is the one that is connected to, so that a name cannot lead
 * elsewhere between the check and the connection.
 */
import { lookup as systemLookup } from 'node:dns/promises'
import { BlockList, isIP } from 'node:net'
import { networkInterfaces } from 'node:os'

/** A permitted address. */
export interface Reachable {
  address: string
  family: 4 | 6
  /** Whether it is a loopback address. */
  isLoopback: boolean
}

/** Names and addresses of the setting, and how names are looked up. */
export interface ReachOptions {
  /** Host names, IP addresses and CIDR blocks. */
  hosts: readonly string[]
  lookup?: (host: string) => Promise<Array<{ address: string; family: number }>>
}

/** A refused or unknown host. The message is a sentence without a period. */
export class Unreachable extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'Unreachable'
  }
}

const lookupAll = (host: string) => systemLookup(host, { all: true, verbatim: true })

/** Returns the address to connect to for a host. Throws `Unreachable` if it is unknown or not permitted. */
export async function reach(host: string, { hosts, lookup = lookupAll }: ReachOptions): Promise<Reachable> {
  const name = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  const literal = isIP(name)
  const found = literal === 0 ? await lookup(name).catch(() => []) : [{ address: name, family: literal }]
  if (found.length === 0) throw new Unreachable(`"${name}" is not a known host`)
  const isNamed = hosts.some(item => item.toLowerCase() === name)
  const allowed = blockListOf(hosts)
  const permitted = found.find(({ address }) => isNamed || isOwn(address) || isListed(allowed, address))
  if (permitted === undefined) {
    throw new Unreachable(`"${name}" is neither this machine nor in the setting gate_hosts`)
  }
  const { address, family } = permitted
  return { address, family: family === 6 ? 6 : 4, isLoopback: isListed(loopback, address) }
}

/** Whether an entry of the setting is an IP address or a CIDR block. */
export function isAddressBlock(item: string): boolean {
  const [address = '', bits, ...rest] = item.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

function isOwn(address: string): boolean {
  if (isListed(loopback, address)) return true
  const own = Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])
  return own.some(each => each.address === address)
}

function blockListOf(hosts: readonly string[]): BlockList {
  const list = new BlockList()
  for (const item of hosts.filter(isAddressBlock)) {
    const [address = '', bits] = item.split('/')
    const kind = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, kind)
    else list.addSubnet(address, Number(bits), kind)
  }
  return list
}

function isListed(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}
