/*
 * The deny list (decisions §5): files that are never shown, neither as a log nor as a file of a target. A log source
 * can name any file that svc may read, so files with secrets are excluded. The rules check only a path. The code that
 * opens a file checks the given path, the path that its links lead to, and what it opened (secrets.ts), every time.
 */
import { basename } from 'node:path'
import { foldCase, isInside } from '../../base/files.js'
import { isOfHome } from './own-files.js'

/** Returns why a path is denied, or null if it is allowed. */
export type Deny = (path: string) => string | null

/** Files of the system. macOS keeps these directories in /private and links to them. */
const systemFile = new RegExp(
  '^(/private)?(/etc/(shadow|gshadow|sudoers|master\\.passwd|security/opasswd|krb5\\.keytab|ssl/private/|wireguard/' +
    '|letsencrypt/(live|archive|keys|accounts)/|NetworkManager/system-connections/|ppp/\\w+-secrets)' +
    '|/var/spool/cron/|/var/backups/g?shadow|/(var/)?run/(secrets|credentials)/)'
)
const kernelDirectories = ['/proc', '/sys', '/dev']

/** Directories that contain keys and tokens, wherever they are. `/` separates segments. */
const secretDirectories = [
  '.ssh',
  '.gnupg',
  '.aws',
  '.azure',
  '.kube',
  '.docker',
  '.password-store',
  '.config/gcloud',
  '.config/gh',
  '.config/hub',
  '.config/rclone',
  '.terraform.d'
]

/** Patterns of file names, without regard to case: users write names such as `Site.PEM` too. */
const secretNames: Array<[pattern: RegExp, what: string]> = [
  [
    /\.(pem|key|p8|p12|pfx|pkcs12|jks|keystore|ppk|kdbx|keytab)((\.(bak|old|orig|save|swp|\d+))|~)?$/i,
    'it may contain a private key'
  ],
  [/^(id_|ssh_host_.*_key)/i, 'it may contain a private key'],
  [/^\.env|\.env$/i, 'it may contain passwords'],
  [
    /^[._](npmrc|netrc)$|^\.(pgpass|git-credentials|pypirc|my\.cnf|mylogin\.cnf|htpasswd|s3cfg|boto|dockercfg|yarnrc\.yml|terraformrc|vault-token)$/i,
    'it may contain passwords'
  ],
  [/^(credentials(\.toml)?|.*\.tfstate(\.backup)?)$/i, 'it may contain passwords'],
  [
    /^(\..*hist(ory|file)?|fish_history|\.lesshst|\.viminfo|\.dbshell)$/i,
    'it contains commands and the passwords typed in them'
  ],
  [/^svc\.db|^svc-(export|backup)-.*\.zip$/i, 'it contains tokens of svc']
]

/** Creates the deny list of a server. `home` contains the names of its data directory, of which only outputs are shown. */
export function createDeny(home: readonly string[]): Deny {
  const homes = home.map(foldCase)
  return path => {
    const folded = foldCase(path)
    const name = basename(folded)
    if (homes.some(home => isOfHome(home, folded))) return 'it belongs to svc'
    if (systemFile.test(folded)) return 'it contains passwords or permissions of the system'
    const places = `/${folded.split(/[\\/]/).join('/')}/`
    const secret = secretDirectories.find(directory => places.includes(`/${directory}/`))
    if (secret !== undefined) return `it is in a ${secret} directory`
    const kernel = kernelDirectories.find(directory => isInside(directory, folded))
    if (kernel !== undefined) return `${kernel} contains no logs`
    return secretNames.find(([pattern]) => pattern.test(name))?.[1] ?? null
  }
}
