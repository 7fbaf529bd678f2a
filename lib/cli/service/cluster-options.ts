/* The options that say which cluster a hub belongs to, and how to reach etcd. */
import { parseUrl } from '../../base/text.js'
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { isOpenUrl } from '../../cluster/forwarded.js'
import { reasonOf, Refusal } from '../../base/errors.js'
import { type ClusterFile, clusterKeyName, type ClusterKeys, readClusterKeys } from '../../base/config/cluster-file.js'
import type { Environment, Home } from '../../base/config/home.js'
import type { ClusterOptions, ClusterSecrets } from '../../cluster/options.js'
import { usage } from '../command.js'
import type { HubWords } from './running.js'

const namePattern = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/

/** Returns the contents of cluster.json that the options describe. Options take precedence over an existing file. */
export function clusterFileOf(
  words: HubWords,
  { known, cwd, cluster }: { known: ClusterFile | null; cwd: string; cluster?: string | undefined }
): ClusterFile {
  const path = (given: string | undefined, before: string | null | undefined): string | null =>
    given === undefined ? (before ?? null) : resolve(cwd, given)
  const endpoints = words.store === undefined ? known?.etcd.endpoints : endpointsOf(words.store)
  if (endpoints === undefined) throw usage('--store', '--store is missing: name the members of etcd')
  const name = words['hub-name'] ?? known?.hub.name
  if (name === undefined) throw usage('--hub-name', '--hub-name is missing: each hub of a cluster has its own name')
  if (!namePattern.test(name)) throw badName('--hub-name', name)
  const url = words['hub-url'] ?? known?.hub.url
  if (url === undefined) throw usage('--hub-url', '--hub-url is missing: the other hubs must reach this one')
  const allowsHttp = words['allow-http'] || (known?.allowsHttp ?? false)
  if (!allowsHttp && isOpenUrl(hubUrl(url))) throw openUrl(url)
  const clusterName = cluster ?? known?.cluster ?? 'svc'
  if (!namePattern.test(clusterName)) throw badName('--cluster', clusterName)
  return {
    cluster: clusterName,
    hub: { name, url: hubUrl(url) },
    etcd: {
      endpoints,
      caFile: path(words['etcd-ca'], known?.etcd.caFile),
      certFile: path(words['etcd-cert'], known?.etcd.certFile),
      keyFile: path(words['etcd-key'], known?.etcd.keyFile),
      user: words['etcd-user'] ?? known?.etcd.user ?? null,
      passwordFile: path(words['etcd-password-file'], known?.etcd.passwordFile)
    },
    hubCaFile: path(words['hub-ca'], known?.hubCaFile),
    allowsHttp,
    hasNode: known?.hasNode ?? true,
    ...(known?.isLeaving && { isLeaving: true })
  }
}

/** Reads the files that cluster.json names. Secrets come from files and the environment, never from the command line. */
export async function clusterOptionsOf(
  file: ClusterFile,
  { home, env, keys }: { home: Home; env: Environment; keys?: ClusterKeys }
): Promise<ClusterOptions> {
  const { etcd, hubCa } = await secretsOf(file, env)
  const [key, ...nextKeys] = keys ?? (await readClusterKeys(join(home.directory, clusterKeyName)))
  const { openReplicatedStore } = await import('../../cluster/replicated-store.js')
  return {
    name: file.cluster,
    hub: file.hub,
    key,
    nextKeys,
    hubCa,
    hubCaFile: file.hubCaFile,
    allowsHttp: file.allowsHttp ?? false,
    hasNode: file.hasNode,
    isLeaving: file.isLeaving,
    openStore: openReplicatedStore,
    reread: () => secretsOf(file, env),
    etcd
  }
}

/** Reads the files that lead to etcd and to the other hubs. */
async function secretsOf(file: ClusterFile, env: Environment): Promise<ClusterSecrets> {
  const { etcd } = file
  const read = async (path: string | null, option: string): Promise<string | undefined> => {
    if (path === null) return undefined
    return readFile(path, 'utf8').catch((error: unknown) => {
      throw usage(option, `Cannot read "${path}" (${option}): ${reasonOf(error)}`)
    })
  }
  const [ca, cert, keyText, password, hubCa] = await Promise.all([
    read(etcd.caFile, '--etcd-ca'),
    read(etcd.certFile, '--etcd-cert'),
    read(etcd.keyFile, '--etcd-key'),
    read(etcd.passwordFile, '--etcd-password-file'),
    read(file.hubCaFile, '--hub-ca')
  ])
  const user = etcd.user ?? (env['SVC_ETCD_USER'] || undefined)
  const secret = password?.trim() ?? (env['SVC_ETCD_PASSWORD'] || undefined)
  if (secret !== undefined) refuseOpen(etcd.endpoints)
  return {
    hubCa,
    etcd: {
      endpoints: etcd.endpoints,
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(keyText !== undefined && { key: keyText }),
      ...(user !== undefined && { user }),
      ...(secret !== undefined && { password: secret })
    }
  }
}

/** Refuses an etcd of two members, and warns if it has fewer than the user named. Without an answer of etcd it does nothing. */
export async function checkMembers({ etcd }: ClusterOptions, warn: (sentence: string) => void): Promise<void> {
  const { countMembers, twoMembers } = await import('../../cluster/etcd/connection.js')
  const count = await countMembers(etcd)
  if (count === 2) throw usage('--store', twoMembers)
  const named = etcd.endpoints.length
  if (count !== null && count < named) warn(`--store names ${named} members of etcd, but etcd has ${count}`)
}

/** Returns the addresses in `etcd:https://e1:2379,https://e2:2379,…`. Refuses two members, and an even number. */
export function endpointsOf(text: string): string[] {
  if (!text.startsWith('etcd:'))
    throw usage('--store', `--store cannot be "${text}": it must be like "etcd:https://e1:2379"`)
  const endpoints = text
    .slice('etcd:'.length)
    .split(',')
    .map(each => each.trim())
    .filter(each => each !== '')
  for (const each of endpoints) {
    const url = parseUrl(each)
    const isPlain = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.pathname === '/'
    if (!isPlain) throw usage('--store', `--store contains "${each}": it must be like "https://e1:2379"`)
  }
  if (endpoints.length === 1 || endpoints.length === 3 || endpoints.length === 5) return endpoints
  const sentence = `--store names ${endpoints.length} members of etcd: use three or one. Two stop when either of them does`
  throw usage('--store', sentence)
}

function hubUrl(text: string): string {
  const url = parseUrl(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.search === '') return text.replace(/(?<!\/)\/+$/, '')
  throw usage('--hub-url', `--hub-url cannot be "${text}": it must be like "https://h1.example.com:5431"`)
}

function openUrl(url: string): Refusal {
  const sentence = `--hub-url "${url}" is not encrypted: hubs pass tokens and the database to each other. Use https (--tls-cert, --tls-key), or allow it on a private network with --allow-http`
  return usage('--hub-url', sentence)
}

/** Refuses to send a password unencrypted to another machine. */
function refuseOpen(endpoints: readonly string[]): void {
  const open = endpoints.find(isOpenUrl)
  if (open === undefined) return
  throw new Refusal('usage', 'usage', `"${open}" is not encrypted: the password of etcd needs https`, {
    field: '--store'
  })
}

function badName(option: string, name: string): Refusal {
  return usage(option, `${option} cannot be "${name}": use lower-case letters, digits and hyphens, at most 40`)
}
