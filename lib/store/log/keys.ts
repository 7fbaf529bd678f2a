/*
 * The keys of a cluster in etcd:
 *
 *   /svc/<cluster>/history         the id of the log, and the number after which it begins
 *   /svc/<cluster>/hubs/<name>     what a hub last said of itself: its address, and how far it is
 *   /svc/<cluster>/leader          the hub that leads, with its lease
 *   /svc/<cluster>/log/<number>    a line of the log, by the number of its first transaction
 *   /svc/<cluster>/part/<number>/<part>   a part of a line that is too long for one value
 *
 * One watch from `leader` to below `part` reports all that a follower needs.
 */

/** The keys of one cluster. */
export interface ClusterKeys {
  history: string
  leader: string
  /** The beginning of the keys of hubs. */
  hubs: string
  /** The beginning of the keys of lines. */
  log: string
  part: string
  hub(name: string): string
  line(first: number): string
  partOf(first: number, part: number): string
  /** Returns the number in the key of a line. */
  numberOf(key: string): number
}

const digits = 16
const partDigits = 6

/** Returns the keys of a cluster. */
export function keysOf(cluster: string): ClusterKeys {
  const top = `/svc/${cluster}/`
  const padded = (number: number) => String(number).padStart(digits, '0')
  return {
    history: `${top}history`,
    leader: `${top}leader`,
    hubs: `${top}hubs/`,
    log: `${top}log/`,
    part: `${top}part/`,
    hub: name => `${top}hubs/${name}`,
    line: first => `${top}log/${padded(first)}`,
    partOf: (first, part) => `${top}part/${padded(first)}/${String(part).padStart(partDigits, '0')}`,
    numberOf: key => Number(key.slice(top.length + 'log/'.length))
  }
}
