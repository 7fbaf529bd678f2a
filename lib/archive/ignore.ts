/*
 * Decides which files stay out of an archive (§4.13): the built-in rules (shared/ignored-names.ts), then the project's
 * `ignore`, then `--ignore`.
 * The last rule that matches decides, and `!pattern` includes again what an earlier rule excluded.
 *
 * A rule has the syntax of a line of .gitignore:
 *   name     without a slash: a file or directory of that name at any depth
 *   a/b      with a slash: relative to the root of the packed tree; a leading slash does the same for a single name
 *   dir/     directories only
 *   dir/**   the directory and everything below it
 *
 * `never` has priority over all of these: no rule includes such a file again.
 *
 * Nothing below an excluded directory is looked up, unless a later `!a/b` names something there: only a rule with a
 * slash reaches into it. (`!build` means the project's own directory, not one in node_modules.)
 */
import { compileGlob, type Glob } from '../base/glob.js'
import { builtinIgnore, isBroughtAlong, neverPushed } from '../shared/ignored-names.js'

/**
 * Never pushed, whatever the rules say: `neverPushed`, and the temporary files that a killed command left of settings
 * (base/replace-file.ts). `.svc` in the packed directory has the tokens of a user whose home it is. `files` may name
 * such a file.
 */
export const neverPacked: readonly string[] = [...neverPushed, 'svc.config*.json.*.tmp', '.svc/**']

/** The rules of one packing. */
export interface IgnoreRules {
  /** Whether the built-in rules apply. */
  builtin: boolean
  /** The `ignore` of the project's configuration file. */
  project: readonly string[]
  /** The option `--ignore`. */
  cli: readonly string[]
  /** Patterns that no other rule can include again. */
  never?: readonly string[]
  /** Absolute path of the packed tree. The built-in rules spare what a complete build output brings along. */
  root?: string
}

/** The decision about one path. */
export interface Verdict {
  isIgnored: boolean
  /**
   * Index of the rule that decided, here or for the directory above. -1 means that no rule did, Infinity that no rule
   * can change the decision.
   */
  rank: number
}

/** Decides about the paths of a tree that is walked from its root down. */
export interface Ignore {
  /** Decides about a path, given the verdict on its parent directory (`rootVerdict` at the top). */
  judge(path: string, isDirectory: boolean, above: Verdict): Verdict
  /** Whether a rule may include something below an excluded directory. */
  mayReachInto(directory: string, verdict: Verdict): boolean
}

/** The verdict on the root of a tree. */
export const rootVerdict: Verdict = { isIgnored: false, rank: -1 }

interface Rule {
  isNegated: boolean
  isDirectoryOnly: boolean
  /** Without a slash: matched against the last segment. */
  isFloating: boolean
  glob: Glob
  /** For `dir/**`: the directory itself. */
  top: Glob | null
  /** Spares what `isBroughtAlong`. */
  isBuiltin: boolean
}

/** Creates the decisions for a set of rules. */
export function createIgnore({ builtin, project, cli, never = [], root = '' }: IgnoreRules): Ignore {
  const builtins = builtin ? builtinIgnore.flatMap(parseRule).map(rule => ({ ...rule, isBuiltin: true })) : []
  const rules: Rule[] = [...builtins, ...[...project, ...cli].flatMap(parseRule)]
  const neverRules = never.flatMap(parseRule)
  const top = `${root.replaceAll('\\', '/')}/`
  const isSpared = ({ path, name }: Judged): boolean => isBroughtAlong(name, top + path.slice(0, -name.length - 1))
  return {
    judge(path, isDirectory, above) {
      const judged = { path, name: path.slice(path.lastIndexOf('/') + 1), isDirectory }
      if (neverRules.some(rule => applies(rule, judged))) return { isIgnored: true, rank: Infinity }
      // Below an excluded directory, only later rules apply, and of those that include, only the ones that reach in.
      const last = above.isIgnored ? above.rank : -1
      for (let rank = rules.length - 1; rank > last; rank--) {
        const rule = rules[rank] as Rule
        if (above.isIgnored && rule.isNegated && rule.isFloating) continue
        if (!applies(rule, judged) || (rule.isBuiltin && isSpared(judged))) continue
        return { isIgnored: !rule.isNegated, rank }
      }
      return above
    },
    mayReachInto(directory, { rank }) {
      const reaching = rules.slice(rank + 1).filter(rule => rule.isNegated && !rule.isFloating)
      return reaching.some(rule => rule.glob.mayMatchBelow(directory))
    }
  }
}

interface Judged {
  path: string
  /** The last segment of the path. */
  name: string
  isDirectory: boolean
}

function applies(rule: Rule, { path, name, isDirectory }: Judged): boolean {
  if (rule.isDirectoryOnly && !isDirectory) return false
  if (isDirectory && rule.top?.matches(path)) return true
  return rule.glob.matches(rule.isFloating ? name : path)
}

/** Returns the rule of a line, or nothing for an empty line or a comment. */
function parseRule(line: string): Rule[] {
  const text = line.trim()
  if (text === '' || text.startsWith('#')) return []
  const isNegated = text.startsWith('!')
  const pattern = text.slice(isNegated ? 1 : 0).replace(/^\.\//, '')
  const bare = pattern.replace(/(?<!\/)\/+$/, '')
  if (bare === '') return []
  const top = /^(.*[^/])\/+\*\*$/.exec(bare)?.[1]
  return [
    {
      isNegated,
      isDirectoryOnly: bare !== pattern,
      isFloating: !bare.includes('/'),
      glob: compileGlob(bare),
      top: top === undefined ? null : compileGlob(top),
      isBuiltin: false
    }
  ]
}
