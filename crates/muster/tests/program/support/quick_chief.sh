# A chief for tests that starts within milliseconds, where an interpreter would take most of the time that a server lives between two kills.
#
#   bash quick_chief.sh RECORD
#
# Writes the message and the retry it was handed to RECORD, files a reply, and writes what the door answered; as chief.py does.

record=$1
turn=$(cat)
# Only muster's own words, before the fence.
preface=${turn%%=== BEGIN OUTSIDE TEXT*}
[[ $preface =~ as\ message_id\ ([0-9]+)\. ]] || exit 1
message=${BASH_REMATCH[1]}
retry=0
[[ $preface =~ This\ is\ retry\ ([0-9]+)\  ]] && retry=${BASH_REMATCH[1]}
printf '{"message": %d, "retry": %d}\n' "$message" "$retry" >>"$record"

reply="Reply to $message."
call='{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "reply_draft", "arguments": {"message_id": '$message', "body": "'$reply'"}}}'
rest=${MUSTER_MCP_URL#http://}
host=${rest%%/*}
exec 3<>"/dev/tcp/${host%:*}/${host##*:}" || exit 1
printf 'POST /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
    "${rest#*/}" "$host" "$MUSTER_AGENT_TOKEN" "${#call}" "$call" >&3
answer=$(cat <&3)
if [[ $answer =~ \"draft_id\":([0-9]+) ]]; then
    printf '{"message": %d, "draft": %d, "body": "%s"}\n' "$message" "${BASH_REMATCH[1]}" "$reply" >>"$record"
else
    printf '{"message": %d, "refused": true}\n' "$message" >>"$record"
fi
echo read
