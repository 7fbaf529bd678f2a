/*
 * What is never shown (decisions §5), neither as a log nor as a file of a target: a log source is a window on any file
 * that svc may read, so those that hold secrets are shut. The rules look at a path alone; who opens a file asks for the
 * path that was given and for the place its links lead to, every time (secrets.ts).
 */
import { basename, dirname } from 'node:path'
import { foldCase, isInside } from '../base/paths.js'

/** Says why a path is denied, or null. */
export type Deny = (path: string) => string | null

/** macOS keeps the system's directories below /private, and links to them. */
const systemFile = new RegExp(
  '^(/private)?(/etc/(shadow|gshadow|sudoers|master\\.passwd|security/opasswd|krb5\\.keytab|ssl/private/|wireguard/' +
    '|letsencrypt/(live|archive|keys|accounts)/|NetworkManager/system-connections/|ppp/\\w+-secrets)' +
    '|/var/spool/cron/|/var/backups/g?shadow|/(var/)?run/(secrets|credentials)/)'
)
const ownFile = /^(config\.json|svc\.db|svc\.sock|variables\.key)/
const kernelDirectories = ['/proc', '/sys', '/dev']

/** Directories that hold keys and tokens, wherever they are; `/` between segments. */
const secretDirectories = [
  '.ssh', '.gnupg', '.aws', '.azure', '.kube', '.docker', '.password-store', '.config/gcloud', '.config/gh', '.config/hub',
  '.config/rclone', '.terraform.d'
]

/** Of the file's name; upper and lower case alike, because who names a file writes `Site.PEM` too. */
const secretNames: Array<[pattern: RegExp, what: string]> = [
  [/\.(pem|key|p8|p12|pfx|pkcs12|jks|keystore|ppk|kdbx|keytab)((\.(bak|old|orig|save|swp|\d+))|~)?$/i, 'it may hold a private key'],
  [/^(id_|ssh_host_.*_key)/i, 'it may hold a private key'],
  [/^\.env|\.env$/i, 'it may hold passwords'],
  [/^[._](npmrc|netrc)$|^\.(pgpass|git-credentials|pypirc|my\.cnf|mylogin\.cnf|htpasswd|s3cfg|boto|dockercfg|yarnrc\.yml|terraformrc|vault-token)$/i, 'it may hold passwords'],
  [/^(credentials(\.toml)?|.*\.tfstate(\.backup)?)$/i, 'it may hold passwords'],
  [/^(\..*hist(ory|file)?|fish_history|\.lesshst|\.viminfo|\.dbshell)$/i, 'it holds commands, and the passwords typed in them'],
  [/^svc\.db|^svc-(export|backup)-.*\.zip$/i, 'it holds tokens of svc']
]

/** The deny list for a server whose data directory is `home`, by each name it goes by. */
export function createDeny(home: readonly string[]): Deny {
  const homes = home.map(foldCase)
  return path => {
    const folded = foldCase(path)
    const name = basename(folded)
    if (ownFile.test(name) && homes.some(home => isOfHome(home, dirname(folded)))) return "it is svc's own"
    if (systemFile.test(folded)) return 'it holds passwords or rights of the system'
    const places = `/${folded.split(/[\\/]/).join('/')}/`
    const secret = secretDirectories.find(directory => places.includes(`/${directory}/`))
    if (secret !== undefined) return `it lies in a ${secret} directory`
    const kernel = kernelDirectories.find(directory => isInside(directory, folded))
    if (kernel !== undefined) return `${kernel} holds no logs`
    return secretNames.find(([pattern]) => pattern.test(name))?.[1] ?? null
  }
}

/** Within it, or within what a restore has put aside beside it. */
function isOfHome(home: string, directory: string): boolean {
  return isInside(home, directory) || directory.startsWith(`${home}.before-`)
}
