import type { Words } from '../t.js'
import { words as ofLogFiles } from './log-files.js'

/** Texts of `pages/project-logs.ts`. */
export const words: Words = {
  ...ofLogFiles,
  'the project': '项目',
  Project: '项目',
  Files: '文件',
  logs: '日志',
  'Add log files': '添加日志文件',
  'Add PM2 log files': '添加 PM2 日志文件',
  'Add the log files of this project, its server or its database. Then follow them live, search them, or view them side by side.':
    '添加此项目、其服务器或数据库写入的文件，即可在此阅读：实时查看、搜索、并排对照。',
  '{files} added': '已添加 {files}',
  '{files} removed from this project': '已从此项目移除 {files}',
  'Log file not found': '此日志文件不在列表中',
  'Go to log files': '前往日志文件',
  'Remove…': '移除…',
  Remove: '移除',
  'Remove from this project?': '从此项目移除？',
  'They are removed from this list. The files themselves are not changed.': '它们不再列在此处。文件本身保持不变。',
  'Move up': '上移',
  'Move down': '下移',
  Change: '修改',
  Missing: '文件不存在',
  'Not readable': '无法读取',
  Name: '名称',
  Kind: '类型',
  Cancel: '取消',
  'Browse server…': '在服务器上选择…',
  'Files on the server': '服务器上的文件',
  'Absolute paths, one per line, up to 50. You can add a file before it exists.':
    '绝对路径，每行一个，最多 50 个。文件尚不存在时也可以添加。',
  Add: '添加',
  'Add {files}': '添加 {files}',
  'Too many paths: {count}. Add at most {most} at a time.': '{count} 个路径超过了 {most} 个：请分批添加。',
  'Line {line}: {problem}': '第 {line} 行：{problem}',
  'the nodes': '节点',
  node: '个节点',
  'Log files on this server': '本服务器上的日志文件',
  'The files of this project are on its nodes': '该项目的文件在它的节点上',
  'The log files of this project are on its nodes': '该项目的日志文件在它的节点上',
  'Choose a node. Its pages show them through this server.': '请选择一个节点，其页面会通过本服务器显示它们。',
  'All {nodes}': '全部 {nodes}'
}
