/*
 * Which files stay out of an archive (§4.13): the built-in rules, over them the project's `ignore`, over them
 * `--ignore`. The last rule that matches decides, and `!pattern` brings back what an earlier one left out.
 *
 * A rule reads like a line of .gitignore:
 *   name     without a slash: a file or directory of that name at any depth
 *   a/b      with one: from the root of what is packed; a leading slash says so for a single name
 *   dir/     directories only
 *   dir/**   the directory and all below it
 *
 * `never` is over all of these: no rule takes back what it names.
 *
 * Below a directory that is left out nothing is looked at, unless a later `!a/b` names something there: only a rule
 * with a slash reaches in. (`!build` is meant for the project's own directory, not for one in node_modules.)
 */
import { compileGlob, type Glob } from './glob.js'

/** §4.13. Patterns with a slash stand at the root of what is packed. */
export const builtinIgnore: readonly string[] = [
  '.git/**',
  'node_modules/**',
  '.next/**',
  '.nuxt/**',
  '.turbo/**',
  '.cache/**',
  '.vite/**',
  'coverage/**',
  '.DS_Store',
  '*.log',
  '.env*',
  '.deploy-archive.zip'
]

/**
 * Never pushed, whatever the rules say: settings of the client and secrets, and what a killed command has left of them
 * (config/replace-file.ts). `files` may name such a file.
 */
export const neverPushed: readonly string[] = ['svc.config*.json', 'svc.config*.json.*.tmp', '.env*']

export interface IgnoreRules {
  /** Whether the built-in rules apply. */
  builtin: boolean
  /** `ignore` of the project's file. */
  project: readonly string[]
  /** `--ignore`. */
  cli: readonly string[]
  /** Patterns that no other rule takes back. */
  never?: readonly string[]
}

/** What the rules say of one path. */
export interface Verdict {
  isIgnored: boolean
  /** Place of the rule that decided, or decided for the directory above; -1: none did; Infinity: no rule takes it back. */
  rank: number
}

/** Verdicts for a tree that is walked from its root down. */
export interface Ignore {
  /** The verdict on a path, given the one on the directory that holds it (`rootVerdict` at the top). */
  judge(path: string, isDirectory: boolean, above: Verdict): Verdict
  /** Whether something below a directory that stays out may be brought back. */
  mayReachInto(directory: string, verdict: Verdict): boolean
}

export const rootVerdict: Verdict = { isIgnored: false, rank: -1 }

interface Rule {
  isNegated: boolean
  isDirectoryOnly: boolean
  /** Without a slash: matched against the last segment. */
  isFloating: boolean
  glob: Glob
  /** Of `dir/**`: the directory itself. */
  top: Glob | null
}

export function createIgnore({ builtin, project, cli, never = [] }: IgnoreRules): Ignore {
  const lines = [...(builtin ? builtinIgnore : []), ...project, ...cli]
  const rules = lines.flatMap(parseRule)
  const lastWord = never.flatMap(parseRule)
  return {
    judge(path, isDirectory, above) {
      const name = path.slice(path.lastIndexOf('/') + 1)
      if (lastWord.some(rule => applies(rule, path, name, isDirectory))) return { isIgnored: true, rank: Infinity }
      // Below a directory that is left out only later rules count, and of those the ones that reach in.
      const last = above.isIgnored ? above.rank : -1
      for (let rank = rules.length - 1; rank > last; rank--) {
        const rule = rules[rank] as Rule
        if (above.isIgnored && rule.isNegated && rule.isFloating) continue
        if (applies(rule, path, name, isDirectory)) return { isIgnored: !rule.isNegated, rank }
      }
      return above
    },
    mayReachInto(directory, { rank }) {
      const reaching = rules.slice(rank + 1).filter(rule => rule.isNegated && !rule.isFloating)
      return reaching.some(rule => rule.glob.mayMatchBelow(directory))
    }
  }
}

function applies(rule: Rule, path: string, name: string, isDirectory: boolean): boolean {
  if (rule.isDirectoryOnly && !isDirectory) return false
  if (isDirectory && rule.top?.matches(path)) return true
  return rule.glob.matches(rule.isFloating ? name : path)
}

/** None of an empty line or a comment. */
function parseRule(line: string): Rule[] {
  const text = line.trim()
  if (text === '' || text.startsWith('#')) return []
  const isNegated = text.startsWith('!')
  const pattern = text.slice(isNegated ? 1 : 0).replace(/^\.\//, '')
  const bare = pattern.replace(/\/+$/, '')
  if (bare === '') return []
  const top = /^(.*[^/])\/+\*\*$/.exec(bare)?.[1]
  return [
    {
      isNegated,
      isDirectoryOnly: bare !== pattern,
      isFloating: !bare.includes('/'),
      glob: compileGlob(bare),
      top: top === undefined ? null : compileGlob(top)
    }
  ]
}
